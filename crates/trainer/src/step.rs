//! One training step, top to bottom (METHOD §1–§7).

use crate::data::Question;
use crate::error::TrainError;
use crate::metrics::Metrics;
use crate::observer::{Observer, Phase};
use crate::rollout_log::{self, Learnt, Logged};
use crate::sampler::{Draw, Event, Rollout, Task};
use crate::step_metrics;
use crate::team;
use crate::trainer::Trainer;
use rex_grpo::advantages::groups_without_spread;
use rex_learner::{Row, Selected};
use rex_model::Sampling;
use std::time::Instant;

/// The rollouts of a step, by question.
pub(crate) struct Gathered {
    pub(crate) questions: Vec<Question>,
    /// Originals first, then probes, then extra ones.
    pub(crate) rollouts: Vec<Rollout>,
    pub(crate) tokens_prefilled: u64,
    pub(crate) tokens_decoded: u64,
}

impl Trainer {
    /// Questions, rollouts, probes, filter, advantages, updates, metrics.
    pub(crate) fn step(&mut self, observer: &mut dyn Observer) -> Result<Metrics, TrainError> {
        let step = self.progress.step + 1;
        let started = Instant::now();

        // Originals, and a probe off some of those that failed (or an extra one in its place).
        let gathered = self.gather(step, observer)?;
        let generated = started.elapsed();

        // Filter, advantages, the density under which the kept transcripts were drawn; then gradient steps against it.
        let selected = self.learner.select(&gathered.rollouts, &mut self.progress.keep_ratio);
        let mut progress = |done, total| observer.progress(Phase::Update, done, total);
        let (policy, team) = (&mut self.model.decoder, self.team.as_ref());
        let updates = self.learner.update(step, policy, &selected.batch, team, &mut progress);

        if self.team.leads() {
            let logged = log_lines(&gathered, &selected, |rollout| self.learner.reward(rollout));
            let frequency = self.config.logging.rollout_freq;
            if frequency > 0 && step.is_multiple_of(frequency) {
                rollout_log::write(&self.run.step_rollouts(step), step, &logged, self.environment.codec())?;
            }
            if updates.skipped > 0 {
                rollout_log::write(&self.run.skipped(step), step, &logged, self.environment.codec())?;
            }
        }

        let mut metrics = step_metrics::of(step, &gathered, &selected, &updates);
        metrics.set("actor/lr", self.learner.optimizer.learning_rate(step));
        let total = started.elapsed();
        metrics.set("timing_s/gen", generated.as_secs_f64());
        metrics.set("timing_s/update_actor", (total - generated).as_secs_f64());
        metrics.set("timing_s/step", total.as_secs_f64());
        let all_tokens: usize = selected.kept.iter().map(|rollout| rollout.episode.transcript().len()).sum();
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
            // The bar shows this process's share.
            let share = |questions| self.team.share(questions).len() * draw.group_size;
            let (total, mut done) = (share(wanted), share(all.questions.len()));
            let mut observe = |event: Event<'_>| match event {
                Event::Finished { episode, .. } if episode.branch().is_none() => {
                    done += 1;
                    observer.progress(Phase::Rollouts, done.min(total), total);
                }
                _ => {}
            };
            let policy = self.model.decoder.frozen();
            let sampler = self.environment.sampler();
            let sampled = team::sample(self.team.as_ref(), &sampler, &policy, &tasks, draw, &mut observe)?;
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
        let rewards: Vec<f64> = rollouts.iter().map(|rollout| self.learner.reward(rollout)).collect();
        let groups: Vec<usize> = rollouts.iter().map(|rollout| rollout.task).collect();
        groups_without_spread(&rewards, &groups)
    }
}

impl Gathered {
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

fn log_lines<'a>(
    gathered: &'a Gathered,
    selected: &'a Selected<'a>,
    reward: impl Fn(&Rollout) -> f64,
) -> Vec<Logged<'a>> {
    let learnt = |rollout: &Rollout| {
        let place = selected.kept.iter().position(|kept| std::ptr::eq(*kept, rollout))?;
        let Row { advantage, behaviour, .. } = &selected.batch.rows[place];
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
