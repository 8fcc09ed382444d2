//! Random decoders of every family, small enough for tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part")]

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rex_model::{Decoder, DecoderConfig};

pub const VOCAB: u32 = 61;

/// Each family's switches, in the fields of `config.json` that differ from [`config`].
pub const FAMILIES: [(&str, &str); 4] = [
    ("llama", r#", "tie_word_embeddings": true"#),
    ("llama", LLAMA3),
    ("qwen2", ""),
    ("qwen3", r#", "head_dim": 8, "attention_bias": true"#),
];

const LLAMA3: &str = r#", "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 64}"#;

/// A decoder of every family.
pub fn decoders(device: &Device) -> Vec<Decoder> {
    FAMILIES.iter().map(|(family, fields)| decoder(family, fields, device)).collect()
}

/// A decoder whose every parameter matters: weights large enough that attention is sharp and logits spread over several
/// nats, biases and norms that are not 0 and 1.
pub fn decoder(family: &str, fields: &str, device: &Device) -> Decoder {
    device.seed(7);
    config(family, fields).init(device).map(&mut Loud)
}

struct Loud;

impl ModuleMapper for Loud {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        parameter.map(|tensor| {
            let noise = tensor.random_like(Distribution::Normal(0.0, 0.2));
            let autodiff = tensor.device().is_autodiff();
            let tensor = (tensor + noise).detach();
            if autodiff { tensor.require_grad() } else { tensor }
        })
    }
}

fn config(family: &str, fields: &str) -> DecoderConfig {
    let json = format!(
        r#"{{"model_type": "{family}", "vocab_size": {VOCAB}, "hidden_size": 24, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024
        {fields}}}"#
    );
    DecoderConfig::from_hf(&json).unwrap()
}

pub fn random_ids(seed: u64, n: usize) -> Vec<u32> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    (0..n).map(|_| rng.random_range(0..VOCAB)).collect()
}

/// `[rows, width]`, padded on the right with an id that occurs.
pub fn ids(rows: &[&[u32]], device: &Device) -> Tensor<2, Int> {
    let width = rows.iter().map(|row| row.len()).max().unwrap();
    let padded = rows.iter().flat_map(|row| (0..width).map(|t| row.get(t).map_or(3, |id| *id as i32)));
    Tensor::from_data(TensorData::new(padded.collect::<Vec<_>>(), [rows.len(), width]), device)
}

/// `[n][vocab]` log-probabilities from hidden states `[.., n, hidden]`.
pub fn logits(decoder: &Decoder, hidden: Tensor<3>) -> Vec<Vec<f32>> {
    let logits = decoder.logits(hidden.flatten::<2>(0, 1));
    floats(logits).chunks(VOCAB as usize).map(<[f32]>::to_vec).collect()
}

pub fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

#[track_caller]
pub fn assert_close(a: &[f32], b: &[f32], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        assert!((a - b).abs() <= 1e-4, "{what}, element {i}: {a} and {b}");
    }
}
