//! A decoder-only transformer on Burn: one decoder for Llama, Qwen2 and Qwen3, its checkpoints and its tokenizer.
//!
//! Start with [`DecoderConfig`], the shape of a model.

mod alternatives;
mod attention;
mod cache;
mod config;
mod decoder;
mod engine;
mod log_probs;
mod mlp;
mod norm;
mod rope;
mod sampling;
mod tokenizer;
mod weights;

pub use alternatives::{Alternatives, Uncertainty};
pub use attention::Attention;
pub use cache::{Cache, Extension, RowId};
pub use config::{ConfigError, DecoderConfig, Family, RopeScaling};
pub use decoder::{Decoder, Layer};
pub use engine::{Advance, Drawn, Engine, Job, TokenCounts};
pub use mlp::Mlp;
pub use norm::RmsNorm;
pub use rope::{Rope, rope_frequencies};
pub use sampling::Sampling;
pub use tokenizer::{Tokenizer, TokenizerError};
#[cfg(not(target_family = "wasm"))]
pub use weights::load;
pub use weights::{HuggingFaceFiles, LoadedModel, Precision, WeightsError};
