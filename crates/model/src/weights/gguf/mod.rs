//! GGUF: one file with configuration, tokenizer and (quantised) weights, as llama.cpp uses them.
//!
//! Weights are dequantised to f32 on the CPU; a decoder never runs on quantised ones.

mod config;
mod file;
mod tokenizer;

pub(crate) use file::Gguf;
