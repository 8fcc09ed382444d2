//! Drawing the next token.

use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, FloatDType, Int, Tensor};

use crate::log_probs::ids;

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
///
/// The vocabulary is taken as a square: the block in which the distribution gets there, then the place within it. A
/// device that computes every prefix on its own then adds up `vocab` numbers a row, and not half of `vocab` squared.
fn invert(log_probs: Tensor<2>, uniforms: &[f64]) -> Tensor<2, Int> {
    let [rows, vocab] = log_probs.dims();
    let device = log_probs.device();
    let size = vocab.isqrt();
    let blocks = vocab.div_ceil(size);
    let probabilities = log_probs.clone().exp();
    let probabilities = match blocks * size - vocab {
        0 => probabilities,
        missing => Tensor::cat(vec![probabilities, Tensor::zeros([rows, missing], (&device, DType::F32))], 1),
    };
    let probabilities = probabilities.reshape([rows * blocks, size]);

    // The largest f32 below 1: `u · total` then stays below `total`.
    let below_one = 1.0 - f32::EPSILON / 2.0;
    let uniforms: Vec<f32> = uniforms.iter().map(|u| (*u as f32).min(below_one)).collect();
    let uniforms = Tensor::<1>::from_data(uniforms.as_slice(), (&device, DType::F32));
    let sums = probabilities.clone().sum_dim(1).reshape([rows, blocks]);
    let reached = sums.clone().cumsum(1);
    let goal = reached.clone().narrow(1, blocks - 1, 1) * uniforms.reshape([rows, 1]);
    let block = first_above(reached.clone(), goal.clone());

    let before = (reached - sums).gather(1, block.clone());
    let first: Vec<i32> = (0..rows).map(|row| (row * blocks) as i32).collect();
    let chosen = (block.clone() + ids(&first, &device).reshape([rows, 1])).reshape([rows]);
    let place = first_above(probabilities.select(0, chosen).cumsum(1) + before, goal);

    let id = (block.mul_scalar(size as i32) + place).clamp_max(vocab as i32 - 1);
    // Sums are rounded in different orders, and the count may then hit a token of probability 0.
    let impossible = log_probs.clone().gather(1, id.clone()).equal_scalar(f32::NEG_INFINITY);
    id.mask_where(impossible, argmax(log_probs))
}

/// The place of the first of `sums` that exceeds `goal`, at most the last: `[rows, n]` and `[rows, 1]` to `[rows, 1]`.
fn first_above(sums: Tensor<2>, goal: Tensor<2>) -> Tensor<2, Int> {
    let last = sums.dims()[1] as i32 - 1;
    sums.lower_equal(goal).int().sum_dim(1).clamp_max(last)
}

fn argmax(log_probs: Tensor<2>) -> Tensor<2, Int> {
    let vocab = log_probs.dims()[1];
    log_probs.argmax(1).clamp(0, vocab as i32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::Device;

    /// Probabilities that are exact in f32, on vocabularies that are a square, less than one and more than one.
    #[test]
    fn the_first_sum_above_the_number_is_drawn() {
        let check = |weights: &[f32], cases: &[(f64, i32)]| {
            let logits: Vec<f32> = weights.iter().map(|weight| weight.ln()).collect();
            let logits = Tensor::<1>::from_data(logits.as_slice(), &Device::flex()).unsqueeze::<2>();
            let log_probs = log_softmax(logits, 1).repeat_dim(0, cases.len());
            let uniforms: Vec<f64> = cases.iter().map(|(uniform, _)| *uniform).collect();
            let drawn: Vec<i32> = invert(log_probs, &uniforms).into_data().iter::<i32>().collect();
            let expected: Vec<i32> = cases.iter().map(|(_, id)| *id).collect();
            assert_eq!(drawn, expected, "{weights:?}");
        };
        check(&[1.0], &[(0.0, 0), (0.999_999_999, 0)]);
        check(&[0.0, 1.0], &[(0.0, 1), (0.5, 1), (0.999_999_999, 1)]);
        check(&[1.0, 0.0, 1.0], &[(0.0, 0), (0.49, 0), (0.51, 2), (0.999_999_999, 2)]);
        check(
            &[0.0, 0.0, 0.0, 2.0, 1.0, 1.0, 0.0, 0.0],
            &[(0.0, 3), (0.49, 3), (0.51, 4), (0.76, 5), (0.999_999_999, 5)],
        );
        let every: Vec<(f64, i32)> = (0..1000).map(|id| ((f64::from(id) + 0.5) / 1000.0, id)).collect();
        check(&[1.0; 1000], &every);
        check(&[1.0; 1024], &[(0.0, 0), (0.03125, 32), (0.5, 512), (0.999_999_999, 1023)]);
    }
}
