//! Drawing the next token.

use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, FloatDType, Int, Tensor};

/// How the next token is chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// The most probable token; log-probabilities are at temperature 1.
    Greedy,
    /// From the softmax of `logits / temperature` over the full vocabulary.
    Temperature(f64),
}

impl Sampling {
    /// The temperature at which log-probabilities are taken.
    pub fn temperature(self) -> f64 {
        match self {
            Self::Greedy => 1.0,
            Self::Temperature(temperature) => temperature,
        }
    }

    /// One token a row from `logits` `[rows, vocab]`, with one uniform number of `[0, 1)` a row, so that what a row draws
    /// does not depend on the others. Returns `[rows, 2]` in f32: the id (exact below 2^24) and its log-probability.
    ///
    /// The draw inverts the cumulative distribution: the first token whose sum exceeds `u · total`. A token of
    /// probability 0 is never drawn, whatever the rounding. Logits that are not finite give a valid id with a
    /// log-probability that is NaN.
    pub(crate) fn draw(self, logits: Tensor<2>, uniforms: &[f64]) -> Tensor<2> {
        let log_probs = log_softmax(logits.cast(DType::F32).div_scalar(self.temperature()), 1);
        let ids = match self {
            Self::Greedy => argmax(log_probs.clone()),
            Self::Temperature(_) => invert(log_probs.clone(), uniforms),
        };
        let drawn = log_probs.gather(1, ids.clone());
        Tensor::cat(vec![ids.cast(FloatDType::F32), drawn], 1)
    }
}

/// The first token at which the cumulative distribution exceeds `u` of its total, `[rows, vocab]` to `[rows, 1]`.
fn invert(log_probs: Tensor<2>, uniforms: &[f64]) -> Tensor<2, Int> {
    let [rows, vocab] = log_probs.dims();
    // The largest f32 below 1: `u · total` then stays below `total`.
    let below_one = 1.0 - f32::EPSILON / 2.0;
    let uniforms: Vec<f32> = uniforms.iter().map(|u| (*u as f32).min(below_one)).collect();
    let uniforms = Tensor::<1>::from_data(uniforms.as_slice(), (&log_probs.device(), DType::F32));
    let sums = log_probs.clone().exp().cumsum(1);
    let goal = sums.clone().narrow(1, vocab - 1, 1) * uniforms.reshape([rows, 1]);
    let ids = sums.lower_equal(goal).int().sum_dim(1).clamp_max(vocab as i32 - 1);
    // A device that adds up in parallel may round sums out of order, and the count may then hit a token of probability 0.
    let impossible = log_probs.clone().gather(1, ids.clone()).equal_scalar(f32::NEG_INFINITY);
    ids.mask_where(impossible, argmax(log_probs))
}

fn argmax(log_probs: Tensor<2>) -> Tensor<2, Int> {
    let vocab = log_probs.dims()[1];
    log_probs.argmax(1).clamp(0, vocab as i32 - 1)
}
