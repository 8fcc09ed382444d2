//! A decoder-only transformer on Burn: one decoder for Llama, Qwen2 and Qwen3, its checkpoints and its tokenizer.
//!
//! Start with [`DecoderConfig`], the shape of a model.

mod config;

pub use config::{ConfigError, DecoderConfig, Family, RopeScaling};
