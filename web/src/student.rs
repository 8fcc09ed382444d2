//! The model as it learns: REX steps on questions, on whatever device the tab has.

use crate::settings::Settings;
use burn::module::Module;
use rex_grpo::KeepRatio;
use rex_learner::optimizer::number_parameters;
use rex_learner::{Learner, LearnerConfig, Updates};
use rex_model::{Activations, Decoder};
use rex_rollout::ExplorationPool;
use rex_sampler::{Origin, Rollout};
use serde::Serialize;

/// A policy with what a step changes beside it.
pub(crate) struct Student {
    policy: Decoder,
    learner: Learner,
    keep_ratio: KeepRatio,
    step: usize,
}

/// A step in numbers, under the trainer's names.
#[derive(Serialize)]
pub(crate) struct Learnt {
    step: usize,
    /// Exact match, a mean over the originals.
    em: f64,
    probes: usize,
    /// Share of the probes that are right; none without probes.
    probe_em: Option<f64>,
    kept: usize,
    pg_loss: f64,
    grad_norm: f64,
    /// In the transcripts that entered the loss.
    tokens: usize,
}

impl Student {
    pub(crate) fn new(start: &Decoder, settings: &Settings, pool: &ExplorationPool, seed: u64) -> Self {
        let policy = number_parameters(start.clone().train());
        let reference = (settings.algorithm.kl_loss_coef > 0.0).then(|| start.clone());
        let config = LearnerConfig {
            rollout: &settings.rollout,
            probe: &settings.probe,
            algorithm: &settings.algorithm,
            optimizer: &settings.optimizer,
            total_steps: settings.trainer.total_steps,
            seed,
            micro_batch_tokens: settings.trainer.micro_batch_tokens,
            passes_at_once: None,
            activations: Activations::Kept,
        };
        let learner = Learner::new(config, pool, reference);
        Self { policy, learner, keep_ratio: KeepRatio::new(settings.probe.keep_ratio), step: 0 }
    }

    /// Steps done.
    pub(crate) fn step(&self) -> usize {
        self.step
    }

    /// The policy, to draw with.
    pub(crate) fn policy(&self) -> Decoder {
        self.policy.frozen()
    }

    /// One update by these transcripts.
    pub(crate) async fn learn(&mut self, rollouts: &[Rollout]) -> Learnt {
        let selected = self.learner.select(rollouts, &mut self.keep_ratio);
        let updates = self.learner.update_async(self.step + 1, &mut self.policy, &selected.batch).await;
        self.step += 1;
        let Updates { pg_loss, grad_norm, .. } = updates;
        let em = |origin: Origin| {
            let of = rollouts.iter().filter(|rollout| rollout.origin == origin);
            mean(of.map(|rollout| rollout.scores.em))
        };
        Learnt {
            step: self.step,
            em: em(Origin::Original).unwrap_or(0.0),
            probes: rollouts.iter().filter(|rollout| rollout.origin == Origin::Probe).count(),
            probe_em: em(Origin::Probe),
            kept: selected.kept.len(),
            pg_loss: mean(pg_loss).unwrap_or(0.0),
            grad_norm: mean(grad_norm).unwrap_or(0.0),
            tokens: selected.batch.rows.iter().map(|row| row.ids.len()).sum(),
        }
    }
}

fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.into_iter().fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}
