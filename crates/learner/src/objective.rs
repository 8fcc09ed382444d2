//! From a batch to its loss: the method's pieces, as configured, on one micro-batch.

use crate::batch::Row;
use crate::config::{AdvantageKind, AlgorithmConfig, LossKind, RolloutConfig};
use crate::found::{Found, max_or_nan};
use burn::optim::GradientsParams;
use burn::tensor::{Bool, Device, Tensor, TensorData};
use rex_grpo::{
    Advantage, Aggregation, BatchTotals, Kl, Overlong, PolicyInput, PolicyLoss, RatioLevel, TokenRatio,
};
use rex_model::{Activations, Decoder};

/// What the policy is trained to minimise.
#[derive(Debug, Clone)]
pub struct Objective {
    pub advantage: Advantage,
    pub overlong: Option<Overlong>,
    loss: PolicyLoss,
    aggregation: Aggregation,
    kl: Kl,
    pub kl_coef: f64,
    temperature: f64,
}

/// The models that a loss is made of.
#[derive(Clone, Copy)]
pub struct Models<'a> {
    /// On a device that records gradients.
    pub policy: &'a Decoder,
    /// What the policy's forward pass keeps.
    pub activations: Activations,
    /// Where a KL term needs it.
    pub reference: Option<&'a Decoder>,
}

/// The gradient of a pass's part of the loss, which adds up over the passes of a mini-batch, and what to make statistics of.
pub struct Evaluated {
    pub gradients: GradientsParams,
    /// For [`Objective::read`], once they are on the host.
    pub found: Tensor<1>,
}

impl Objective {
    pub fn new(algorithm: &AlgorithmConfig, rollout: &RolloutConfig) -> Self {
        let AlgorithmConfig { clip_ratio_low, clip_ratio_high, .. } = *algorithm;
        Self {
            advantage: match algorithm.advantage {
                AdvantageKind::Grpo => {
                    Advantage::Grpo { std: true, epsilon: 1e-6, singleton: algorithm.singleton }
                }
                AdvantageKind::DrGrpo => {
                    Advantage::Grpo { std: false, epsilon: 1e-6, singleton: algorithm.singleton }
                }
                AdvantageKind::Rloo => Advantage::Rloo,
                AdvantageKind::Opo => Advantage::Opo,
                AdvantageKind::Reinforce => Advantage::Reinforce { baseline: false },
                AdvantageKind::ReinforceBaseline => Advantage::Reinforce { baseline: true },
            },
            overlong: (algorithm.overlong_buffer > 0).then_some(Overlong {
                max_tokens: rollout.max_prompt_length,
                buffer: algorithm.overlong_buffer,
                factor: 1.0,
            }),
            loss: match algorithm.loss {
                LossKind::Clip => {
                    PolicyLoss::Clipped { clip_ratio_low, clip_ratio_high, dual_clip: algorithm.clip_ratio_c }
                }
                LossKind::Gspo => PolicyLoss::Gspo { clip_ratio_low, clip_ratio_high },
                LossKind::Cispo => PolicyLoss::Cispo { clip_ratio_low, clip_ratio_high },
            },
            aggregation: algorithm.loss_agg_mode,
            kl: algorithm.kl_loss_type,
            kl_coef: algorithm.kl_loss_coef,
            temperature: rollout.temperature,
        }
    }

    /// The part that `rows` add to the loss of the mini-batch with these `totals`:
    /// `Σ policy loss + kl_coef · Σ KL(π_θ ‖ π_ref)`, METHOD §7.
    pub fn evaluate(
        &self,
        models: Models<'_>,
        rows: &[&Row],
        level: RatioLevel,
        totals: &BatchTotals,
    ) -> Evaluated {
        let Models { policy, activations, reference } = models;
        let device = policy.device();
        let ids: Vec<&[u32]> = rows.iter().map(|row| row.ids.as_slice()).collect();
        let masks: Vec<Vec<bool>> = rows.iter().map(|row| row.loss_mask.clone()).collect();
        let pass = policy.pass(&ids, &masks, self.temperature, activations);
        let log_probs = Tensor::from_inner(pass.log_probs()).require_grad();
        let width = log_probs.dims()[1];
        let mask = padded_mask(&masks, width, &device);
        let advantages: Vec<f32> = rows.iter().map(|row| row.advantage as f32).collect();
        let term = self.loss.term(PolicyInput {
            log_probs: log_probs.clone(),
            behaviour: padded(rows.iter().map(|row| row.behaviour.as_slice()), width, &device),
            level,
            advantages: Tensor::from_data(TensorData::new(advantages, [rows.len(), 1]), &device),
            mask: mask.clone(),
        });
        let pg_loss = self.aggregation.sum(term.loss, mask.clone(), totals);
        let kl_loss = reference.map(|reference| {
            let reference = Tensor::from_inner(reference.log_probs(&ids, &masks, self.temperature));
            self.aggregation.sum(self.kl.estimate(log_probs.clone(), reference), mask, totals)
        });
        let loss = match &kl_loss {
            Some(kl_loss) => pg_loss.clone() + kl_loss.clone() * self.kl_coef,
            None => pg_loss.clone(),
        };

        let slopes = log_probs.grad(&loss.backward()).expect("the loss depends on the log-probabilities");
        let found = [pass.log_probs(), term.log_ratio.inner(), term.clipped.inner().float()];
        let gradients = pass.backward(slopes);

        let losses = [pg_loss, kl_loss.unwrap_or_else(|| Tensor::zeros([1], &device))].map(Tensor::inner);
        let found = found.into_iter().map(|values| values.flatten::<1>(0, 1)).chain(losses);
        Evaluated { gradients, found: Tensor::cat(found.collect(), 0) }
    }

    /// What a pass over `rows` found, off the front of `values`: those of one [`Evaluated::found`], or of several in order.
    pub fn read(&self, rows: &[&Row], values: &mut &[f32]) -> Found {
        let width = rows.iter().map(|row| row.ids.len()).max().unwrap_or(0);
        let mut take = |count: usize| {
            let (taken, rest) = values.split_at(count);
            *values = rest;
            taken
        };
        let places = rows.len() * width;
        let (log_probs, log_ratio, clipped) = (take(places), take(places), take(places));
        let losses = take(2);
        let (mut tokens, mut log_prob_difference) = (Vec::new(), 0.0f64);
        for (r, row) in rows.iter().enumerate() {
            for t in (0..row.ids.len()).filter(|&t| row.loss_mask[t]) {
                let at = r * width + t;
                tokens.push(TokenRatio {
                    author: row.authors[t],
                    log_ratio: log_ratio[at].into(),
                    clipped: clipped[at] != 0.0,
                });
                let difference = (f64::from(log_probs[at]) - row.log_old[t]).abs();
                log_prob_difference = max_or_nan(log_prob_difference, difference);
            }
        }
        Found { pg_loss: losses[0].into(), kl_loss: losses[1].into(), tokens, log_prob_difference }
    }
}

/// Rows of values, padded with 0 to `[rows, width]`.
fn padded<'r>(rows: impl Iterator<Item = &'r [f64]>, width: usize, device: &Device) -> Tensor<2> {
    let mut values = Vec::new();
    let mut count = 0;
    for row in rows {
        count += 1;
        values.extend(row.iter().map(|&value| value as f32));
        values.resize(count * width, 0.0);
    }
    Tensor::from_data(TensorData::new(values, [count, width]), device)
}

fn padded_mask(rows: &[Vec<bool>], width: usize, device: &Device) -> Tensor<2, Bool> {
    let mut values = Vec::with_capacity(rows.len() * width);
    for (r, row) in rows.iter().enumerate() {
        values.extend_from_slice(row);
        values.resize((r + 1) * width, false);
    }
    Tensor::from_data(TensorData::new(values, [rows.len(), width]), device)
}
