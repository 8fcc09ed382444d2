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
    /// From the likeliest tokens of that softmax only, as [`Truncation`] cuts it. For answering, not for training: the
    /// log-probabilities stay those of the full vocabulary, under which a token is likelier or less likely than it was drawn.
    Truncated { temperature: f64, truncation: Truncation },
}

/// The tokens that a draw is confined to: those that pass every rule, in this order, of which the likeliest always does. A rule
/// that is absent lets all pass.
///
/// The rules are those of transformers (`TopKLogitsWarper`, `TopPLogitsWarper`, `MinPLogitsWarper`), but for ties: tokens as
/// likely as the last that passes pass with it, in `top_p` too, where transformers goes by the order of an unstable sort.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Truncation {
    /// The `k` likeliest, at least 1.
    pub top_k: Option<usize>,
    /// The likeliest whose probabilities, among those that `top_k` leaves, add up to `p` of `(0, 1]`.
    pub top_p: Option<f64>,
    /// Those at least `min_p` of `[0, 1]` times as likely as the likeliest.
    pub min_p: Option<f64>,
}

impl Sampling {
    /// The temperature at which log-probabilities are taken.
    pub fn temperature(self) -> f64 {
        match self {
            Self::Greedy => 1.0,
            Self::Temperature(temperature) | Self::Truncated { temperature, .. } => temperature,
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
            Self::Truncated { truncation, .. } => invert(truncation.apply(log_probs.clone()), uniforms),
        };
        let drawn = log_probs.gather(1, ids.clone());
        Tensor::cat(vec![ids.cast(FloatDType::F32), drawn], 1)
    }
}

impl Truncation {
    /// The log-probabilities `[rows, vocab]` with those that do not pass at `-inf`.
    fn apply(self, log_probs: Tensor<2>) -> Tensor<2> {
        let [_, vocab] = log_probs.dims();
        let sorted = log_probs.clone().sort_descending(1);
        // Every rule is a least log-probability, `[rows, 1]`.
        let mut least = sorted.clone().narrow(1, self.top_k.unwrap_or(vocab).clamp(1, vocab) - 1, 1);
        if let Some(p) = self.top_p.filter(|&p| p < 1.0) {
            let left = sorted.clone().lower(least.clone());
            let sums = sorted.clone().exp().mask_fill(left, 0.0).cumsum(1);
            let goal = sums.clone().narrow(1, vocab - 1, 1).mul_scalar(p);
            let last = sums.lower(goal).int().sum_dim(1).clamp_max(vocab as i32 - 1);
            least = least.max_pair(sorted.clone().gather(1, last));
        }
        if let Some(p) = self.min_p {
            least = least.max_pair(sorted.narrow(1, 0, 1).add_scalar(p.min(1.0).ln()));
        }
        let left = log_probs.clone().lower(least);
        log_probs.mask_fill(left, f32::NEG_INFINITY)
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
    use burn::tensor::{Device, TensorData};
    use proptest::prelude::*;
    use serde_json::Value;

    fn row(logits: &[f32]) -> Tensor<2> {
        Tensor::from_data(TensorData::new(logits.to_vec(), [1, logits.len()]), &Device::flex())
    }

    /// The ids that a draw is confined to.
    fn kept(logits: &[f32], temperature: f64, truncation: Truncation) -> Vec<usize> {
        let log_probs = log_softmax(row(logits).div_scalar(temperature), 1);
        let kept = truncation.apply(log_probs).into_data().try_to_vec::<f32>().unwrap();
        (0..kept.len()).filter(|&id| kept[id] > f32::NEG_INFINITY).collect()
    }

    /// The id that each of 64 uniform numbers draws, and its log-probability.
    fn draws(logits: &[f32], sampling: Sampling) -> Vec<(usize, f32)> {
        let draw = |u| sampling.draw(row(logits), &[u]).into_data().try_to_vec::<f32>().unwrap();
        (0..64).map(|i| draw(f64::from(i) / 64.0)).map(|drawn| (drawn[0] as usize, drawn[1])).collect()
    }

    fn softmax(logits: &[f32], temperature: f64) -> Vec<f64> {
        let exp: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) / temperature).exp()).collect();
        let total: f64 = exp.iter().sum();
        exp.into_iter().map(|e| e / total).collect()
    }

    /// `tests/fixtures/make.py truncation`.
    #[test]
    fn the_same_tokens_pass_as_in_transformers() {
        let cases: Vec<Value> =
            serde_json::from_str(include_str!("../tests/fixtures/truncation.json")).unwrap();
        for case in cases {
            let numbers = |field: &str| case[field].as_array().unwrap().iter().map(|n| n.as_f64().unwrap());
            let logits: Vec<f32> = numbers("logits").map(|logit| logit as f32).collect();
            let truncation = Truncation {
                top_k: case["top_k"].as_u64().map(|k| k as usize),
                top_p: case["top_p"].as_f64(),
                min_p: case["min_p"].as_f64(),
            };
            let expected: Vec<usize> = numbers("kept").map(|id| id as usize).collect();
            assert_eq!(kept(&logits, case["temperature"].as_f64().unwrap(), truncation), expected, "{case}");
        }
    }

    #[test]
    fn ties_pass_together() {
        let logits = [1.0, 3.0, 1.0, 2.0, 1.0];
        let top_k = |k| Truncation { top_k: Some(k), ..Truncation::default() };
        assert_eq!(kept(&logits, 1.0, top_k(2)), [1, 3]);
        assert_eq!(kept(&logits, 1.0, top_k(3)), [0, 1, 2, 3, 4]);
        let top_p = Truncation { top_p: Some(0.9), ..Truncation::default() };
        assert_eq!(kept(&logits, 1.0, top_p), [0, 1, 2, 3, 4]);
        assert_eq!(kept(&[0.0; 4], 1.0, Truncation { min_p: Some(1.0), ..top_p }), [0, 1, 2, 3]);
    }

    #[test]
    fn logits_that_are_not_finite_give_a_valid_id() {
        let truncation = Truncation { top_k: Some(2), top_p: Some(0.5), min_p: Some(0.1) };
        for logits in [[f32::NAN; 4], [0.0, f32::NAN, 1.0, 2.0], [f32::INFINITY, 0.0, 1.0, 2.0]] {
            for (id, log_prob) in draws(&logits, Sampling::Truncated { temperature: 1.0, truncation }) {
                assert!(id < 4 && log_prob.is_nan(), "{logits:?} drew {id} at {log_prob}");
            }
        }
    }

    fn logits() -> impl Strategy<Value = Vec<f32>> {
        let logit = prop_oneof![9 => -20.0..20.0f32, 1 => Just(f32::NEG_INFINITY)];
        proptest::collection::vec(logit, 1..48)
            .prop_filter("some token is possible", |logits| logits.iter().any(|logit| logit.is_finite()))
    }

    fn truncation() -> impl Strategy<Value = Truncation> {
        let rule = |range| proptest::option::of(range);
        (proptest::option::of(1..60usize), rule(0.001..1.0), rule(0.0..1.0))
            .prop_map(|(top_k, top_p, min_p)| Truncation { top_k, top_p, min_p })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn rules_that_let_all_pass_change_no_draw(logits in logits(), temperature in 0.3..2.0f64) {
            let all = [
                Truncation::default(),
                Truncation { top_p: Some(1.0), ..Truncation::default() },
                Truncation { top_k: Some(logits.len()), top_p: Some(1.0), min_p: Some(0.0) },
            ];
            let full = draws(&logits, Sampling::Temperature(temperature));
            for truncation in all {
                prop_assert_eq!(&full, &draws(&logits, Sampling::Truncated { temperature, truncation }));
            }
        }

        #[test]
        fn one_token_is_the_likeliest(logits in logits(), top_p in proptest::option::of(0.001..1.0)) {
            let truncation = Truncation { top_k: Some(1), top_p, min_p: None };
            let greedy = draws(&logits, Sampling::Greedy);
            let ties = logits.iter().filter(|&&logit| logit == logits[greedy[0].0]).count();
            prop_assume!(ties == 1);
            prop_assert_eq!(greedy, draws(&logits, Sampling::Truncated { temperature: 1.0, truncation }));
        }

        #[test]
        fn what_is_kept_is_likely_and_enough(
            logits in logits(), temperature in 0.3..2.0f64, truncation in truncation(),
        ) {
            let probabilities = softmax(&logits, temperature);
            let kept = kept(&logits, temperature, truncation);
            let of = |ids: &[usize]| ids.iter().map(|&id| probabilities[id]).sum::<f64>();
            let left: Vec<usize> = (0..logits.len()).filter(|id| !kept.contains(id)).collect();
            let least = kept.iter().map(|&id| probabilities[id]).fold(1.0, f64::min);
            prop_assert!(!kept.is_empty());
            prop_assert!(left.iter().all(|&id| probabilities[id] <= least * (1.0 + 1e-6)), "{kept:?}");
            if let Truncation { top_k: None, top_p: Some(p), min_p: None } = truncation {
                prop_assert!(of(&kept) >= p - 1e-5, "{kept:?} have {} of {p}", of(&kept));
            }
            for (id, log_prob) in draws(&logits, Sampling::Truncated { temperature, truncation }) {
                prop_assert!(kept.contains(&id) && probabilities[id] > 0.0, "{id} was drawn");
                // That of the full vocabulary.
                prop_assert!((f64::from(log_prob) - probabilities[id].ln()).abs() < 1e-4);
            }
        }
    }

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
