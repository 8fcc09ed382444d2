//! Checkpoints: Hugging Face folders (read and written) and GGUF files (read); encoders in Hugging Face folders (read).
//!
//! Both are sources of named tensors that are read one at a time, as f32, into the decoder's parameters. A missing,
//! unexpected, misshapen or non-finite tensor is an error that names it. The readers take anything that is
//! `Read + Seek`, so a browser can hand in bytes; [`load`] opens a path.

#[cfg(not(target_family = "wasm"))]
mod bert;
mod error;
#[cfg(not(target_family = "wasm"))]
mod folder;
mod gguf;
mod model;
mod names;
mod safetensors;
mod source;

#[cfg(not(target_family = "wasm"))]
pub(crate) use bert::BertTensors;
pub use error::WeightsError;
#[cfg(not(target_family = "wasm"))]
pub use folder::load;
pub use model::{HuggingFaceFiles, LoadedModel};
pub use safetensors::Precision;
#[cfg(not(target_family = "wasm"))]
pub(crate) use safetensors::Safetensors;
#[cfg(not(target_family = "wasm"))]
pub(crate) use source::fill;
