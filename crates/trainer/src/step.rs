//! One training step, top to bottom (METHOD §1–§7).

use crate::batch::{Batch, Correcting, Row, probe_score};
use crate::data::Question;
use crate::error::TrainError;
use crate::metrics::{Metrics, max_or_nan, mean};
use crate::objective::Models;
use crate::observer::{Observer, Phase};
use crate::optimizer::global_norm;
use crate::passes;
use crate::rollout_log::{self, Learnt, Logged};
use crate::sampler::{Draw, Event, Origin, Rollout, Task};
use crate::step_metrics;
use crate::trainer::Trainer;
use burn::optim::GradientsAccumulator;
use rex_grpo::advantages::groups_without_spread;
use rex_grpo::{BatchTotals, TokenRatio};
use rex_model::{Decoder, Sampling};
use rex_rollout::Author;
use std::time::Instant;

/// The rollouts of a step, by question.
pub(crate) struct Gathered {
    pub(crate) questions: Vec<Question>,
    /// Originals first, then probes, then extra ones.
    pub(crate) rollouts: Vec<Rollout>,
    pub(crate) tokens_prefilled: u64,
    pub(crate) tokens_decoded: u64,
}

/// What the updates of a step did.
#[derive(Default)]
pub(crate) struct Updates {
    pub(crate) pg_loss: Vec<f64>,
    pub(crate) kl_loss: Vec<f64>,
    pub(crate) grad_norm: Vec<f64>,
    pub(crate) tokens: Vec<TokenRatio<Author>>,
    /// Before the first update: how far the training forward is from what sampling recorded.
    pub(crate) log_prob_difference: f64,
    /// Updates that were skipped because the loss or the gradient was not finite.
    pub(crate) skipped: usize,
}

impl Trainer {
    /// Questions, rollouts, probes, filter, advantages, updates, metrics.
    pub(crate) fn step(&mut self, observer: &mut dyn Observer) -> Result<Metrics, TrainError> {
        let step = self.progress.step + 1;
        let started = Instant::now();

        // Originals, and a probe off some of those that failed (or an extra one in its place).
        let gathered = self.gather(step, observer)?;
        let generated = started.elapsed();
        let originals: Vec<&Rollout> = gathered.of(Origin::Original);
        let probes: Vec<&Rollout> = gathered.of(Origin::Probe);
        let extra: Vec<&Rollout> = gathered.of(Origin::Extra);
        let failed = originals.iter().filter(|r| !r.scores.is_correct()).count();

        // The probes whose exploration prompts the policy finds likeliest, as many as probes have lately been right.
        let scores: Vec<f64> = probes.iter().map(|probe| probe_score(probe)).collect();
        let keep_ratio = self.progress.keep_ratio;
        let chosen = self.config.probe.filter.keep(
            &scores,
            originals.len(),
            keep_ratio.value(),
            self.config.probe.max_fraction,
        );
        let kept: Vec<&Rollout> =
            originals.iter().copied().chain(chosen.iter().map(|&i| probes[i])).chain(extra).collect();
        if !probes.is_empty() {
            self.progress.keep_ratio.update(mean(probes.iter().map(|probe| probe.scores.em)));
        }

        // Each transcript against the others of its question, probes among them.
        let rewards: Vec<f64> = kept.iter().map(|rollout| self.reward(rollout)).collect();
        let groups: Vec<usize> = kept.iter().map(|rollout| rollout.task).collect();
        let tokens: Vec<usize> = kept.iter().map(|rollout| trainable_tokens(rollout)).collect();
        let advantages = self.objective.advantage.of(&rewards, &groups, &tokens);

        // The density under which the kept transcripts were drawn, then gradient steps against it.
        let batch = Batch::new(
            &kept,
            &advantages,
            Correcting {
                correction: self.config.algorithm.correction,
                density: self.config.probe.density,
                trie: &self.trie,
                failed,
                originals: originals.len(),
            },
        );
        let updates = self.update(step, &batch, observer);

        let logged = log_lines(&gathered, &kept, &batch, |rollout| self.reward(rollout));
        let frequency = self.config.logging.rollout_freq;
        if frequency > 0 && step.is_multiple_of(frequency) {
            rollout_log::write(&self.run.step_rollouts(step), step, &logged, self.environment.codec())?;
        }
        if updates.skipped > 0 {
            rollout_log::write(&self.run.skipped(step), step, &logged, self.environment.codec())?;
        }

        let mut metrics = step_metrics::of(step, &gathered, &kept, &rewards, &advantages, &batch, &updates);
        metrics.set("rex/keep_ratio", keep_ratio.value());
        metrics.set("actor/lr", self.optimizer.learning_rate(step));
        let total = started.elapsed();
        metrics.set("timing_s/gen", generated.as_secs_f64());
        metrics.set("timing_s/update_actor", (total - generated).as_secs_f64());
        metrics.set("timing_s/step", total.as_secs_f64());
        let all_tokens: usize = kept.iter().map(|rollout| rollout.episode.transcript().len()).sum();
        metrics.set("perf/throughput", all_tokens as f64 / total.as_secs_f64());

        self.progress.step = step;
        self.progress.questions = self.questions.position();
        self.progress.skipped += updates.skipped;
        metrics.set("rex/skipped_updates", self.progress.skipped as f64);
        Ok(metrics)
    }

    /// Draws the step's questions and their transcripts; with dynamic sampling, questions whose transcripts all earned
    /// the same are replaced by fresh ones, up to a limit.
    fn gather(&mut self, step: usize, observer: &mut dyn Observer) -> Result<Gathered, TrainError> {
        let wanted = self.config.data.train_batch_size;
        let mut all =
            Gathered { questions: vec![], rollouts: vec![], tokens_prefilled: 0, tokens_decoded: 0 };
        for attempt in 0..=self.config.algorithm.max_resamples {
            let questions = self.questions.draw(wanted - all.questions.len());
            let tasks = self.tasks(&questions)?;
            let draw = Draw {
                sampling: Sampling::Temperature(self.config.rollout.temperature),
                group_size: self.config.rollout.group_size,
                probing: self.environment.probing(),
                seed: self.config.trainer.seed,
                // Every attempt has random streams of its own.
                step: (step as u64) << 8 | attempt as u64,
            };
            let total = wanted * draw.group_size;
            let mut done = all.questions.len() * draw.group_size;
            let mut observe = |event: Event<'_>| match event {
                Event::Finished { episode, .. } if episode.branch().is_none() => {
                    done += 1;
                    observer.progress(Phase::Rollouts, done.min(total), total);
                }
                _ => {}
            };
            let policy = self.model.decoder.frozen();
            let sampled = self.environment.sampler().sample(&policy, &tasks, draw, &mut observe)?;
            let last = attempt == self.config.algorithm.max_resamples;
            let flat = if last { Vec::new() } else { self.flat_groups(&sampled.rollouts) };
            all.tokens_prefilled += sampled.tokens.prefilled;
            all.tokens_decoded += sampled.tokens.decoded;
            all.absorb(questions, sampled.rollouts, &flat);
            if all.questions.len() == wanted {
                break;
            }
        }
        all.rollouts.sort_by_key(|r| (r.origin, r.task, r.sample));
        Ok(all)
    }

    fn tasks(&self, questions: &[Question]) -> Result<Vec<Task>, TrainError> {
        questions.iter().map(|question| self.environment.task(question)).collect()
    }

    fn flat_groups(&self, rollouts: &[Rollout]) -> Vec<usize> {
        let rewards: Vec<f64> = rollouts.iter().map(|rollout| self.reward(rollout)).collect();
        let groups: Vec<usize> = rollouts.iter().map(|rollout| rollout.task).collect();
        groups_without_spread(&rewards, &groups)
    }

    /// `r = EM + w · format`, less the over-long penalty (METHOD §6).
    pub(crate) fn reward(&self, rollout: &Rollout) -> f64 {
        let tokens = rollout.episode.transcript().len();
        let penalty = self.objective.overlong.map_or(0.0, |overlong| overlong.penalty(tokens));
        rollout.scores.reward(self.config.algorithm.format_weight) + penalty
    }

    /// One optimizer update a mini-batch, its gradient summed over micro-batches.
    fn update(&mut self, step: usize, batch: &Batch, observer: &mut dyn Observer) -> Updates {
        let (algorithm, seed) = (&self.config.algorithm, self.config.trainer.seed);
        let plan: Vec<Vec<&Row>> = (0..algorithm.ppo_epochs)
            .flat_map(|epoch| batch.mini_batches(algorithm.ppo_mini_batch_size, seed, step, epoch))
            .collect();
        let tokens = self.config.trainer.micro_batch_tokens;
        let micro: Vec<Vec<Vec<&Row>>> =
            plan.iter().map(|rows| passes::split(rows, |row| row.ids.len(), tokens)).collect();
        let total = micro.iter().map(Vec::len).sum();
        let mut done = 0;
        let mut updates = Updates::default();
        for (number, (rows, micro)) in plan.iter().zip(micro).enumerate() {
            let totals = BatchTotals::of(rows.iter().map(|row| row.loss_mask.as_slice()));
            let mut gradients = GradientsAccumulator::new();
            let (mut pg_loss, mut kl_loss) = (0.0, 0.0);
            let policy = &self.model.decoder;
            let activations = self.config.trainer.activations();
            let evaluate = |policy: &Decoder, rows: &Vec<&Row>| {
                let models = Models { policy, activations, reference: self.reference.as_ref() };
                self.objective.evaluate(models, rows, batch.level, &totals)
            };
            policy.side_by_side(&micro, evaluate, |part| {
                pg_loss += part.pg_loss;
                kl_loss += part.kl_loss;
                if number == 0 {
                    let before = updates.log_prob_difference;
                    updates.log_prob_difference = max_or_nan(before, part.log_prob_difference);
                }
                updates.tokens.extend(part.tokens);
                gradients.accumulate(policy, part.gradients);
                done += 1;
                observer.progress(Phase::Update, done, total);
            });
            let gradients = gradients.grads();
            let norm = global_norm(&self.model.decoder, &gradients);
            updates.pg_loss.push(pg_loss);
            updates.kl_loss.push(kl_loss);
            updates.grad_norm.push(norm);
            if (pg_loss + kl_loss + norm).is_finite() {
                let policy = self.model.decoder.clone();
                self.model.decoder = self.optimizer.step(step, policy, gradients, norm);
            } else {
                updates.skipped += 1;
            }
        }
        updates
    }
}

impl Gathered {
    fn of(&self, origin: Origin) -> Vec<&Rollout> {
        self.rollouts.iter().filter(|rollout| rollout.origin == origin).collect()
    }

    /// Takes in the questions that are not in `dropped`, with their rollouts, numbered on.
    fn absorb(&mut self, questions: Vec<Question>, rollouts: Vec<Rollout>, dropped: &[usize]) {
        let mut number = vec![None; questions.len()];
        for (task, question) in questions.into_iter().enumerate() {
            if !dropped.contains(&task) {
                number[task] = Some(self.questions.len());
                self.questions.push(question);
            }
        }
        self.rollouts.extend(rollouts.into_iter().filter_map(|rollout| {
            let task = number[rollout.task]?;
            Some(Rollout { task, ..rollout })
        }));
    }
}

fn trainable_tokens(rollout: &Rollout) -> usize {
    rollout.episode.transcript().authors().iter().filter(|author| author.in_loss()).count()
}

fn log_lines<'a>(
    gathered: &'a Gathered,
    kept: &[&Rollout],
    batch: &'a Batch,
    reward: impl Fn(&Rollout) -> f64,
) -> Vec<Logged<'a>> {
    let learnt = |rollout: &Rollout| {
        let place = kept.iter().position(|kept| std::ptr::eq(*kept, rollout))?;
        let Row { advantage, behaviour, .. } = &batch.rows[place];
        Some(Learnt { advantage: *advantage, behaviour })
    };
    let line = |rollout: &'a Rollout| Logged {
        rollout,
        question: &gathered.questions[rollout.task],
        reward: reward(rollout),
        learnt: learnt(rollout),
    };
    gathered.rollouts.iter().map(line).collect()
}
