//! Rotary positions.

use std::f64::consts::PI;

use burn::module::Module;
use burn::tensor::{DType, Device, Tensor, TensorData};

use crate::config::{DecoderConfig, RopeScaling};

/// Rotary position embedding (Su et al., arXiv 2104.09864) in the layout of Hugging Face checkpoints: component `i` of a
/// head is paired with component `i + head_dim / 2`.
#[derive(Module, Debug)]
pub struct Rope {
    /// `[head_dim / 2]`, radians a token; f32 whatever the model's precision.
    frequencies: Tensor<1>,
    /// Queries and keys are scaled by this.
    attention_factor: f64,
}

/// The rotation at the positions of one forward pass; every layer uses it.
#[derive(Debug, Clone)]
pub(crate) struct Rotation {
    /// `[rows or 1, width, 1, head_dim / 2]`
    cos: Tensor<4>,
    sin: Tensor<4>,
}

impl Rope {
    pub(crate) fn init(config: &DecoderConfig, device: &Device) -> Self {
        let frequencies: Vec<f32> = rope_frequencies(config).into_iter().map(|f| f as f32).collect();
        let data = TensorData::new(frequencies, [config.head_dim / 2]);
        let attention_factor = match config.rope_scaling {
            Some(RopeScaling::Yarn { attention_factor, .. }) => attention_factor,
            None | Some(RopeScaling::Llama3 { .. }) => 1.0,
        };
        Self { frequencies: Tensor::from_data(data, (device, DType::F32)), attention_factor }
    }

    /// The rotation at `positions` `[rows or 1, width]` (f32).
    pub(crate) fn at(&self, positions: Tensor<2>) -> Rotation {
        let [rows, width] = positions.dims();
        let frequencies = self.frequencies.clone().unsqueeze::<4>();
        let angles = positions.reshape([rows, width, 1, 1]) * frequencies;
        let scaled = |part: Tensor<4>| match self.attention_factor {
            1.0 => part,
            factor => part * factor,
        };
        Rotation { cos: scaled(angles.clone().cos()), sin: scaled(angles.sin()) }
    }
}

impl Rotation {
    /// Rotates `x` `[rows, width, heads, head_dim]`.
    pub(crate) fn apply(&self, x: Tensor<4>) -> Tensor<4> {
        let dtype = x.dtype();
        let half = x.dims()[3] / 2;
        let (cos, sin) = (self.cos.clone().cast(dtype), self.sin.clone().cast(dtype));
        let first = x.clone().narrow(3, 0, half);
        let second = x.narrow(3, half, half);
        Tensor::cat(
            vec![first.clone() * cos.clone() - second.clone() * sin.clone(), second * cos + first * sin],
            3,
        )
    }
}

/// `theta^(-2i / head_dim)` for `i < head_dim / 2`, stretched as `rope_scaling` says.
pub fn rope_frequencies(config: &DecoderConfig) -> Vec<f64> {
    let dim = config.head_dim as f64;
    let plain = (0..config.head_dim / 2).map(|i| config.rope_theta.powf(-2.0 * i as f64 / dim));
    match config.rope_scaling {
        None => plain.collect(),
        Some(RopeScaling::Llama3 {
            factor,
            low_freq_factor,
            high_freq_factor,
            original_max_position_embeddings,
        }) => plain
            .map(|frequency| {
                // Turns over the original context: many turns stay, few are stretched, in between is a blend.
                let turns = original_max_position_embeddings as f64 * frequency / (2.0 * PI);
                let keep = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                let keep = keep.clamp(0.0, 1.0);
                keep * frequency + (1.0 - keep) * frequency / factor
            })
            .collect(),
        Some(RopeScaling::Yarn {
            factor, beta_fast, beta_slow, original_max_position_embeddings, ..
        }) => {
            // The component that turns so often over the original context.
            let component = |turns: f64| {
                dim * (original_max_position_embeddings as f64 / (turns * 2.0 * PI)).ln()
                    / (2.0 * config.rope_theta.ln())
            };
            let first = component(beta_fast).floor().max(0.0);
            let last = component(beta_slow).ceil().min(dim - 1.0);
            let width = if first == last { 0.001 } else { last - first };
            let stretched = plain.enumerate().map(|(i, frequency)| {
                let stretch = ((i as f64 - first) / width).clamp(0.0, 1.0);
                stretch * frequency / factor + (1.0 - stretch) * frequency
            });
            stretched.collect()
        }
    }
}
