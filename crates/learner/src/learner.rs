//! What a step learns from its transcripts, top to bottom (METHOD §4–§7).

use crate::batch::{Batch, Correcting, Row, probe_score};
use crate::config::{AlgorithmConfig, OptimizerConfig, ProbeConfig, RolloutConfig};
use crate::found::{Updates, exchange};
use crate::objective::{Models, Objective};
use crate::optimizer::{Optimizer, squares};
use crate::passes;
use crate::team::{Team, sum_gradients};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Tensor, TensorData};
use rex_grpo::{BatchTotals, KeepRatio, PromptTrie};
use rex_model::{Activations, Decoder};
use rex_rollout::ExplorationPool;
use rex_sampler::{Origin, Rollout};
use std::num::NonZero;

/// Turns the transcripts of a step into updates of the policy.
pub struct Learner {
    objective: Objective,
    /// AdamW with its moments.
    pub optimizer: Optimizer,
    /// Counts the exploration prompts as they are encoded.
    trie: PromptTrie,
    /// The frozen starting point, where a KL term needs it.
    reference: Option<Decoder>,
    algorithm: AlgorithmConfig,
    probe: ProbeConfig,
    seed: u64,
    micro_batch_tokens: usize,
    passes_at_once: Option<NonZero<usize>>,
    activations: Activations,
}

/// What a [`Learner`] is made by.
pub struct LearnerConfig<'c> {
    pub rollout: &'c RolloutConfig,
    pub probe: &'c ProbeConfig,
    pub algorithm: &'c AlgorithmConfig,
    pub optimizer: &'c OptimizerConfig,
    pub total_steps: usize,
    pub seed: u64,
    /// Most tokens (padding included) of one forward and backward pass.
    pub micro_batch_tokens: usize,
    /// See [`Decoder::side_by_side`].
    pub passes_at_once: Option<NonZero<usize>>,
    /// What a forward pass keeps for its backward pass.
    pub activations: Activations,
}

/// The transcripts of a step that enter its loss.
pub struct Selected<'r> {
    /// Originals, the kept probes, and extra ones.
    pub kept: Vec<&'r Rollout>,
    pub rewards: Vec<f64>,
    pub advantages: Vec<f64>,
    pub batch: Batch,
    /// Share of probes that the filter let pass.
    pub keep_ratio: f64,
}

/// The transcripts of one optimizer update.
struct MiniBatch<'b> {
    passes: Vec<Vec<&'b Row>>,
    totals: BatchTotals,
}

/// An update that is computed but, maybe, not finished on the device.
struct Pending<'p> {
    mini_batch: &'p MiniBatch<'p>,
    gradients: GradientsParams,
    /// What the passes found, then the square of the gradient's norm: one tensor, so that the host waits once an update.
    values: Tensor<1>,
}

impl Learner {
    pub fn new(config: LearnerConfig<'_>, pool: &ExplorationPool, reference: Option<Decoder>) -> Self {
        let LearnerConfig { rollout, probe, algorithm, optimizer, total_steps, seed, .. } = config;
        Self {
            objective: Objective::new(algorithm, rollout),
            optimizer: Optimizer::new(optimizer, total_steps),
            trie: PromptTrie::new(pool.prompts()),
            reference,
            algorithm: algorithm.clone(),
            probe: probe.clone(),
            seed,
            micro_batch_tokens: config.micro_batch_tokens,
            passes_at_once: config.passes_at_once,
            activations: config.activations,
        }
    }

    /// `r = EM + w · format`, less the over-long penalty (METHOD §6).
    pub fn reward(&self, rollout: &Rollout) -> f64 {
        let tokens = rollout.episode.transcript().len();
        let penalty = self.objective.overlong.map_or(0.0, |overlong| overlong.penalty(tokens));
        rollout.scores.reward(self.algorithm.format_weight) + penalty
    }

    /// Filter, advantages and mixture.
    pub fn select<'r>(&self, rollouts: &'r [Rollout], keep_ratio: &mut KeepRatio) -> Selected<'r> {
        let of = |origin: Origin| rollouts.iter().filter(move |rollout| rollout.origin == origin);
        let originals: Vec<&Rollout> = of(Origin::Original).collect();
        let probes: Vec<&Rollout> = of(Origin::Probe).collect();
        let failed = originals.iter().filter(|rollout| !rollout.scores.is_correct()).count();

        // The probes whose exploration prompts the policy finds likeliest, as many as probes have lately been right.
        let scores: Vec<f64> = probes.iter().map(|probe| probe_score(probe)).collect();
        let ratio = keep_ratio.value();
        let chosen = self.probe.filter.keep(&scores, originals.len(), ratio, self.probe.max_fraction);
        let kept = originals.iter().copied().chain(chosen.iter().map(|&probe| probes[probe]));
        let kept: Vec<&Rollout> = kept.chain(of(Origin::Extra)).collect();
        if !probes.is_empty() {
            let right: f64 = probes.iter().map(|probe| probe.scores.em).sum();
            keep_ratio.update(right / probes.len() as f64);
        }

        // Each transcript against the others of its question, probes among them.
        let rewards: Vec<f64> = kept.iter().map(|rollout| self.reward(rollout)).collect();
        let groups: Vec<usize> = kept.iter().map(|rollout| rollout.task).collect();
        let tokens: Vec<usize> = kept.iter().map(|rollout| trainable_tokens(rollout)).collect();
        let advantages = self.objective.advantage.of(&rewards, &groups, &tokens);

        // The density under which the kept transcripts were drawn.
        let batch = Batch::new(
            &kept,
            &advantages,
            Correcting {
                correction: self.algorithm.correction,
                density: self.probe.density,
                trie: &self.trie,
                failed,
                originals: originals.len(),
            },
        );
        Selected { kept, rewards, advantages, batch, keep_ratio: ratio }
    }

    /// Gradient steps against that density, one a mini-batch, by all processes of a team together. `progress(done, total)` counts
    /// this process's passes.
    pub fn update(
        &mut self,
        step: usize,
        policy: &mut Decoder,
        batch: &Batch,
        team: &dyn Team,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Updates {
        let plan = self.plan(step, batch);
        let total = plan.iter().map(|mini_batch| team.deal(&mini_batch.passes).count()).sum();
        let (mut updates, mut done) = (Updates::default(), 0);
        for mini_batch in &plan {
            let pending = self.submit(policy, batch, mini_batch, team, &mut || {
                done += 1;
                progress(done, total);
            });
            let values = pending.values.clone().into_data();
            self.finish(step, policy, pending, values, team, &mut updates);
        }
        updates
    }

    /// [`update`](Self::update) by one process where the device must not be waited for: in the browser.
    ///
    /// # Panics
    /// If the device fails.
    pub async fn update_async(&mut self, step: usize, policy: &mut Decoder, batch: &Batch) -> Updates {
        let mut updates = Updates::default();
        for mini_batch in &self.plan(step, batch) {
            let pending = self.submit(policy, batch, mini_batch, &crate::Alone, &mut || ());
            let values =
                pending.values.clone().into_data_async().await.expect("the device gives its results");
            self.finish(step, policy, pending, values, &crate::Alone, &mut updates);
        }
        updates
    }

    fn plan<'b>(&self, step: usize, batch: &'b Batch) -> Vec<MiniBatch<'b>> {
        let AlgorithmConfig { ppo_epochs, ppo_mini_batch_size, .. } = self.algorithm;
        let mini_batches =
            (0..ppo_epochs).flat_map(|epoch| batch.mini_batches(ppo_mini_batch_size, self.seed, step, epoch));
        let of = |rows: Vec<&'b Row>| MiniBatch {
            totals: BatchTotals::of(rows.iter().map(|row| row.loss_mask.as_slice())),
            passes: passes::split(&rows, |row| row.ids.as_slice(), self.micro_batch_tokens),
        };
        mini_batches.map(of).collect()
    }

    /// The gradient of a mini-batch, summed over its passes and the processes that share them.
    fn submit<'p>(
        &self,
        policy: &Decoder,
        batch: &Batch,
        mini_batch: &'p MiniBatch<'p>,
        team: &dyn Team,
        done: &mut dyn FnMut(),
    ) -> Pending<'p> {
        let own: Vec<&Vec<&Row>> = team.deal(&mini_batch.passes).collect();
        let evaluate = |policy: &Decoder, rows: &&Vec<&Row>| {
            let models = Models { policy, activations: self.activations, reference: self.reference.as_ref() };
            self.objective.evaluate(models, rows, batch.level, &mini_batch.totals)
        };
        let (mut gradients, mut values) = (GradientsAccumulator::new(), Vec::new());
        policy.side_by_side(&own, self.passes_at_once, evaluate, |pass| {
            gradients.accumulate(policy, pass.gradients);
            values.push(pass.found);
            done();
        });
        let gradients = sum_gradients(team, policy, gradients.grads());
        values.push(squares(policy, &gradients));
        Pending { mini_batch, gradients, values: Tensor::cat(values, 0) }
    }

    /// One update of the optimizer, unless loss or gradient are not finite.
    fn finish(
        &mut self,
        step: usize,
        policy: &mut Decoder,
        pending: Pending<'_>,
        values: TensorData,
        team: &dyn Team,
        updates: &mut Updates,
    ) {
        let values: Vec<f32> = values.try_to_vec().expect("log-probabilities are f32");
        let (squares, mut values) = values.split_last().expect("the gradient's norm is one of them");
        let norm = f64::from(squares.sqrt());
        let Pending { mini_batch, gradients, .. } = pending;
        let own = team.deal(&mini_batch.passes).map(|rows| self.objective.read(rows, &mut values)).collect();
        let found = exchange(team, &mini_batch.passes, own);
        let loss = updates.take(found, norm);
        if (loss + norm).is_finite() {
            *policy = self.optimizer.step(step, policy.clone(), gradients, norm);
        } else {
            updates.skipped += 1;
        }
    }
}

fn trainable_tokens(rollout: &Rollout) -> usize {
    rollout.episode.transcript().authors().iter().filter(|author| author.in_loss()).count()
}
