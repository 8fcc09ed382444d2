//! The gated feed-forward block.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::activation::silu;
use burn::tensor::{Device, Tensor};

use crate::config::DecoderConfig;
use crate::decoder::{linear, project};

/// SwiGLU (Shazeer, arXiv 2002.05202): `down(silu(gate(x)) · up(x))`.
#[derive(Module, Debug)]
pub struct Mlp {
    pub gate_proj: Linear,
    pub up_proj: Linear,
    pub down_proj: Linear,
}

impl Mlp {
    pub(crate) fn init(config: &DecoderConfig, device: &Device) -> Self {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        Self {
            gate_proj: linear(hidden, inner, false, device),
            up_proj: linear(hidden, inner, false, device),
            down_proj: linear(inner, hidden, false, device),
        }
    }

    /// `[tokens, hidden]` to the same shape.
    pub fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        let gate = silu(project(&self.gate_proj, x.clone()));
        project(&self.down_proj, gate * project(&self.up_proj, x))
    }
}
