//! Root mean square normalisation.

use burn::module::{Initializer, Module, Param};
use burn::tensor::{DType, Device, Tensor};

/// `y = x / sqrt(mean(x²) + eps) · weight` over the last axis (Zhang and Sennrich, arXiv 1910.07467).
///
/// The statistics and the division are in f32 whatever the precision of `x`, as in the reference implementations of
/// Llama and Qwen; Burn's own `RmsNorm` rounds the root mean square before it divides.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// `[features]`
    pub weight: Param<Tensor<1>>,
    eps: f64,
}

impl RmsNorm {
    pub(crate) fn init(features: usize, eps: f64, device: &Device) -> Self {
        Self { weight: Initializer::Ones.init([features], device), eps }
    }

    /// `[.., features]` to the same shape.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let dtype = x.dtype();
        let x = x.cast(DType::F32);
        let scale = (x.clone() * x.clone()).mean_dim(D - 1).add_scalar(self.eps).sqrt().recip();
        (x * scale).cast(dtype) * self.weight.val().cast(dtype).unsqueeze()
    }
}
