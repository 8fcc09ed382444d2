//! A decoder-only transformer on Burn: one decoder for Llama, Qwen2 and Qwen3, its checkpoints and its tokenizer; and the
//! sentence encoders that search by meaning.
//!
//! Start with [`DecoderConfig`], the shape of a model, or [`SentenceEncoder`].

mod alternatives;
mod attention;
mod cache;
mod config;
mod decoder;
#[cfg(not(target_family = "wasm"))]
mod encoder;
mod engine;
mod forest;
mod log_probs;
mod lora;
#[cfg(not(target_family = "wasm"))]
mod memory;
mod mlp;
mod norm;
mod pass;
mod rope;
mod sampling;
mod side_by_side;
mod tokenizer;
mod weights;

pub use alternatives::{Alternatives, Uncertainty};
pub use attention::Attention;
pub use cache::{Cache, Extension, RowId};
pub use config::{ConfigError, DecoderConfig, Family, RopeScaling};
pub use decoder::{Decoder, Layer};
#[cfg(not(target_family = "wasm"))]
pub use encoder::{Bert, EncoderConfig, Pooling, SentenceEncoder, TextKind};
pub use engine::{Advance, Drawn, Engine, Job, TokenCounts};
pub use forest::pass_tokens;
pub use lora::Lora;
#[cfg(not(target_family = "wasm"))]
pub use memory::{Phase, TrainingPlan};
pub use mlp::Mlp;
pub use norm::RmsNorm;
pub use pass::{Activations, Pass};
pub use rope::{Rope, rope_frequencies};
pub use sampling::{Sampling, Truncation};
pub use side_by_side::passes_at_once;
pub use tokenizer::{Tokenizer, TokenizerError};
pub use weights::{HuggingFaceFiles, LoadedModel, WeightsError};
#[cfg(not(target_family = "wasm"))]
pub use weights::{Precision, load, load_adapter, load_config, save_adapter, shard_names};
