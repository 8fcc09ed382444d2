//! What may not move the loss: a correction with nothing to correct, padding, splitting, order.

use crate::support::*;
use burn::tensor::{DType, Tensor};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_grpo::{
    Aggregation, BatchTotals, Correction, Kl, PolicyInput, PolicyLoss, Probe, RatioLevel, Row,
    log_failure_rate,
};

/// A transcript as the loss sees it; `log_probs` are the current policy's.
#[derive(Clone)]
struct Transcript {
    log_probs: Vec<f64>,
    log_old: Vec<f64>,
    log_ref: Vec<f64>,
    mask: Vec<bool>,
    advantage: f64,
    probe: Option<Probe>,
}

fn transcripts(count: usize, seed: u64) -> Vec<Transcript> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut one = |row: usize| {
        let tokens = random.random_range(4..12);
        let mut draw =
            |spread: f64| (0..tokens).map(|_| -spread * random.random::<f64>()).collect::<Vec<f64>>();
        let (log_old, log_ref) = (draw(3.0), draw(3.0));
        let log_probs = log_old.iter().zip(draw(0.8)).map(|(old, moved)| old + moved + 0.3).collect();
        // The first token is a question's, and one transcript has nothing in the loss at all.
        let mask: Vec<bool> =
            (0..tokens).map(|t| t > 0 && row != 3 && random.random::<f64>() < 0.8).collect();
        let is_probe = row % 4 == 1;
        let probe = is_probe.then(|| Probe::new(2..4, vec![-0.7, -1.2], &mask, log_failure_rate(2, 5)));
        Transcript { log_probs, log_old, log_ref, mask, advantage: random.random_range(-1.5..1.5), probe }
    };
    (0..count).map(&mut one).collect()
}

struct Run<'a> {
    loss: PolicyLoss,
    aggregation: Aggregation,
    correction: Correction,
    alpha: f64,
    batch: &'a [Transcript],
    dtype: DType,
}

impl Run<'_> {
    /// The loss of each micro-batch, padded by `padding` more tokens, and the gradient of each transcript's tokens.
    fn run(&self, micro_batches: &[Vec<usize>], padding: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
        let rows: Vec<Row<'_>> = self.batch.iter().map(row).collect();
        let behaviour = self.correction.behaviour(&rows, self.alpha);
        let totals = BatchTotals::of(self.batch.iter().map(|transcript| transcript.mask.as_slice()));
        let mut losses = Vec::new();
        let mut gradients = vec![Vec::new(); self.batch.len()];
        for members in micro_batches {
            let width = members.iter().map(|&m| self.batch[m].mask.len()).max().unwrap() + padding;
            let pad = |of: &dyn Fn(usize) -> Vec<f64>| -> Tensor<2> {
                let padded = |&m: &usize| {
                    let mut values = of(m);
                    values.resize(width, 0.0);
                    values
                };
                tensor_of(&members.iter().map(padded).collect::<Vec<_>>(), self.dtype)
            };
            let flags: Vec<Vec<f64>> = members
                .iter()
                .map(|&m| {
                    let mut flags: Vec<f64> = self.batch[m].mask.iter().map(|&m| f64::from(m)).collect();
                    flags.resize(width, 0.0);
                    flags
                })
                .collect();
            let (part, gradient) = with_gradient(pad(&|m| self.batch[m].log_probs.clone()), |log_probs| {
                let kl = Kl::K3.estimate(log_probs.clone(), pad(&|m| self.batch[m].log_ref.clone()));
                let term = self.loss.term(PolicyInput {
                    log_probs,
                    behaviour: pad(&|m| behaviour.log_probs[m].clone()),
                    level: behaviour.level,
                    advantages: pad(&|m| vec![self.batch[m].advantage]).narrow(1, 0, 1),
                    mask: mask(&flags),
                });
                self.aggregation.sum(term.loss + kl * 0.1, mask(&flags), &totals)
            });
            losses.push(part);
            for (&m, row) in members.iter().zip(gradient) {
                gradients[m] = row[..self.batch[m].mask.len()].to_vec();
            }
        }
        (losses, gradients)
    }
}

fn row(transcript: &Transcript) -> Row<'_> {
    Row { log_old: &transcript.log_old, loss_mask: &transcript.mask, probe: transcript.probe.as_ref() }
}

const LOSSES: [PolicyLoss; 4] = [
    PolicyLoss::Clipped { clip_ratio_low: 0.2, clip_ratio_high: 0.28, dual_clip: None },
    PolicyLoss::Clipped { clip_ratio_low: 0.2, clip_ratio_high: 0.2, dual_clip: Some(1.5) },
    PolicyLoss::Gspo { clip_ratio_low: 0.1, clip_ratio_high: 0.1 },
    PolicyLoss::Cispo { clip_ratio_low: 0.2, clip_ratio_high: 0.2 },
];
const AGGREGATIONS: [Aggregation; 4] = [
    Aggregation::TokenMean,
    Aggregation::SeqMeanTokenSum,
    Aggregation::SeqMeanTokenMean,
    Aggregation::SeqMeanTokenSumNorm,
];

#[test]
fn padding_splitting_and_order_do_not_matter() {
    let batch = transcripts(9, 1);
    let mut shuffled: Vec<usize> = (0..batch.len()).collect();
    shuffled.shuffle(&mut ChaCha8Rng::seed_from_u64(2));
    let whole = [(0..batch.len()).collect::<Vec<_>>()];
    let others: [(&str, Vec<Vec<usize>>, usize); 4] = [
        ("padded", whole.to_vec(), 7),
        ("one by one", (0..batch.len()).map(|row| vec![row]).collect(), 0),
        ("uneven parts", vec![vec![0, 1, 2, 3, 4], vec![5], vec![6, 7, 8]], 3),
        ("shuffled", shuffled.chunks(4).map(<[usize]>::to_vec).collect(), 1),
    ];
    for (loss, aggregation) in LOSSES.into_iter().flat_map(|l| AGGREGATIONS.map(|a| (l, a))) {
        for correction in [Correction::Token, Correction::Trajectory, Correction::None] {
            for (dtype, tolerance) in [(DType::F32, 1e-6), (DType::F64, 1e-13)] {
                let run = Run { loss, aggregation, correction, alpha: 0.2, batch: &batch, dtype };
                let (expected, gradient) = run.run(&whole, 0);
                assert!(gradient.concat().iter().any(|&g| g != 0.0));
                for (what, micro_batches, padding) in &others {
                    let what = format!("{what}: {loss:?}, {aggregation:?}, {correction:?}, {dtype:?}");
                    let (losses, found) = run.run(micro_batches, *padding);
                    // Where the parts cancel, rounding is relative to them, not to what is left.
                    let scale: f64 = losses.iter().map(|part| part.abs()).sum();
                    let total: f64 = losses.iter().sum();
                    assert!(
                        (total - expected[0]).abs() <= tolerance * scale,
                        "{what}: {total}, {expected:?}"
                    );
                    for (a, b) in found.concat().iter().zip(gradient.concat()) {
                        assert!((a - b).abs() <= tolerance * b.abs(), "{what}: gradient {a}, {b}");
                    }
                }
            }
        }
    }
}

#[test]
fn without_probes_every_correction_is_grpo_bit_for_bit() {
    let mut batch = transcripts(6, 3);
    batch.iter_mut().for_each(|transcript| transcript.probe = None);
    let whole = [(0..batch.len()).collect::<Vec<_>>()];
    let dtype = DType::F32;
    for (loss, aggregation) in LOSSES.into_iter().flat_map(|l| AGGREGATIONS.map(|a| (l, a))) {
        let run = |correction| {
            Run { correction, loss, aggregation, alpha: 0.0, batch: &batch, dtype }.run(&whole, 2)
        };
        let grpo = run(Correction::None);
        for correction in [Correction::Token, Correction::Trajectory] {
            assert_eq!(run(correction), grpo, "{loss:?}, {aggregation:?}, {correction:?}");
        }
    }
    // And log π_old goes to the device as the f32 it was recorded as.
    let recorded: Vec<f32> = batch.iter().flat_map(|t| t.log_old.iter().map(|&log| log as f32)).collect();
    let widened: Vec<f64> = recorded.iter().map(|&log| f64::from(log)).collect();
    let whole_row = Row { log_old: &widened, loss_mask: &vec![true; widened.len()], probe: None };
    let behaviour = Correction::Token.behaviour(&[whole_row], 0.0);
    let back: Vec<f32> = behaviour.log_probs[0].iter().map(|&log| log as f32).collect();
    assert_eq!(back, recorded);
}

#[test]
fn no_gradient_flows_through_the_behaviour_policy() {
    let behaviour = tensor(&[vec![-1.0, -2.0]]).require_grad();
    let term = PolicyLoss::default().term(PolicyInput {
        log_probs: tensor(&[vec![-1.1, -1.9]]).require_grad(),
        behaviour: behaviour.clone(),
        level: RatioLevel::Token,
        advantages: tensor(&[vec![1.0]]),
        mask: mask(&[vec![1.0, 1.0]]),
    });
    assert!(behaviour.grad(&term.loss.sum().backward()).is_none());
}

#[test]
fn a_batch_without_tokens_is_zero() {
    for aggregation in AGGREGATIONS {
        let totals = BatchTotals::of([[false, false].as_slice()]);
        let (value, gradient) = with_gradient(tensor(&[vec![3.0, f64::NAN]]), |values| {
            aggregation.sum(values, mask(&[vec![0.0, 0.0]]), &totals)
        });
        assert_eq!((value, gradient), (0.0, vec![vec![0.0, 0.0]]), "{aggregation:?}");
    }
}
