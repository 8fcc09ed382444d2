#[cfg(not(target_family = "wasm"))]
use std::{io, path::Path};

use crate::{config::ConfigError, tokenizer::TokenizerError};

/// Why a checkpoint cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum WeightsError {
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
    #[error(
        "{path}: no model here; expected a folder with config.json, tokenizer.json and *.safetensors, or a .gguf file"
    )]
    NoModel { path: String },
    #[error("{file}: {source}")]
    Config { file: String, source: ConfigError },
    #[error("{file}: {source}")]
    Tokenizer { file: String, source: TokenizerError },
    #[error(
        "{file}: the tokenizer's ids reach {largest}, the embedding has {vocab_size} rows; they do not belong together"
    )]
    TokenizerTooLarge { file: String, largest: u32, vocab_size: usize },
    #[error("{file}: {reason}")]
    Damaged { file: String, reason: String },
    #[error("{file}: {found} bytes long, expected {expected}; it is truncated or damaged, fetch it again")]
    Length { file: String, found: u64, expected: u64 },
    #[error("tensor `{name}` is missing in {files}")]
    MissingTensor { name: String, files: String },
    #[error("{files} hold tensors that this architecture does not have: {names}")]
    UnexpectedTensors { names: String, files: String },
    #[error("tensor `{name}` has shape {found:?}, the configuration implies {expected:?}")]
    Shape { name: String, found: Vec<usize>, expected: Vec<usize> },
    #[error("tensor `{name}` is of type {found}; supported: F32, F16, BF16")]
    Type { name: String, found: String },
    #[error("tensor `{name}` holds {value} at element {index}; the checkpoint is damaged or diverged")]
    NotFinite { name: String, index: usize, value: f32 },
}

/// Makes an error of the file system name its path.
#[cfg(not(target_family = "wasm"))]
pub(crate) fn io_error(path: &Path) -> impl Fn(io::Error) -> WeightsError {
    let path = path.display().to_string();
    move |source| WeightsError::Io { path: path.clone(), source }
}
