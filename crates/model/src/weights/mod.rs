//! Checkpoints: Hugging Face folders and PEFT adapters (read and written), GGUF files (read), and encoders in Hugging Face
//! folders (read).
//!
//! All are sources of named tensors that are read one at a time, as f32, into a network's parameters. A missing,
//! unexpected, misshapen or non-finite tensor is an error that names it. The readers take anything that is
//! `Read + Seek`, so a browser can hand in bytes; [`load`] opens a path.

#[cfg(not(target_family = "wasm"))]
mod adapter;
#[cfg(not(target_family = "wasm"))]
mod bert;
mod error;
#[cfg(not(target_family = "wasm"))]
mod folder;
mod gguf;
mod model;
mod names;
#[cfg(not(target_family = "wasm"))]
mod output;
mod safetensors;
mod source;

#[cfg(not(target_family = "wasm"))]
pub use adapter::{load_adapter, save_adapter};
#[cfg(not(target_family = "wasm"))]
pub(crate) use bert::BertTensors;
pub use error::WeightsError;
#[cfg(not(target_family = "wasm"))]
pub use folder::{load, load_config, shard_names};
pub use model::{HuggingFaceFiles, LoadedModel};
#[cfg(not(target_family = "wasm"))]
pub(crate) use names::Naming;
#[cfg(not(target_family = "wasm"))]
pub use output::Precision;
#[cfg(not(target_family = "wasm"))]
pub(crate) use safetensors::Safetensors;
#[cfg(not(target_family = "wasm"))]
pub(crate) use source::fill;
#[cfg(not(target_family = "wasm"))]
pub(crate) use {error::io_error, model::check_ids};
