//! Random decoders of every family, small enough for tests.
#![allow(dead_code, reason = "each test file uses a part")]

use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rex_model::DecoderConfig;

pub struct Family {
    pub name: &'static str,
    pub config: fn() -> DecoderConfig,
}

pub const VOCAB: u32 = 61;

pub const FAMILIES: [Family; 4] = [
    Family { name: "llama", config: || config("llama", r#", "tie_word_embeddings": true"#) },
    Family { name: "llama3", config: || config("llama", LLAMA3) },
    Family { name: "qwen2", config: || config("qwen2", "") },
    Family { name: "qwen3", config: || config("qwen3", r#", "head_dim": 8"#) },
];

const LLAMA3: &str = r#", "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64}"#;

fn config(family: &str, fields: &str) -> DecoderConfig {
    let json = format!(
        r#"{{"model_type": "{family}", "vocab_size": {VOCAB}, "hidden_size": 24, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024
        {fields}}}"#
    );
    DecoderConfig::from_hf(&json).unwrap()
}

pub fn device() -> Device {
    let device = Device::flex();
    device.seed(7);
    device
}

pub fn random_ids(seed: u64, n: usize) -> Vec<u32> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    (0..n).map(|_| rng.random_range(0..VOCAB)).collect()
}

/// `[rows, width]`, padded on the right with an id that occurs.
pub fn ids(rows: &[&[u32]]) -> Tensor<2, Int> {
    let width = rows.iter().map(|row| row.len()).max().unwrap();
    let padded = rows.iter().flat_map(|row| (0..width).map(|t| row.get(t).map_or(3, |id| *id as i32)));
    Tensor::from_data(TensorData::new(padded.collect::<Vec<_>>(), [rows.len(), width]), &device())
}
