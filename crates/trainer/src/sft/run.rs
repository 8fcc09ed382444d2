//! A supervised run: its stages of steps, with metrics and checkpoints like those of `rex train`.

use super::batch::{Learnt, learn};
use super::stage::{Stage, stages};
use crate::checkpoint::{self, Weights};
use crate::config::{Config, ModelConfig, SftSource};
use crate::environment::Environment;
use crate::error::TrainError;
use crate::hopworld;
use crate::hub;
use crate::metrics::{Metrics, MetricsLog};
use crate::policy;
use crate::run_dir::RunDir;
use burn::tensor::Device;
use rex_learner::optimizer::{Optimizer, global_norm};
use rex_model::LoadedModel;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// Everything that a supervised run holds in memory.
pub struct Sft {
    config: Config,
    run: RunDir,
    environment: Environment,
    model: LoadedModel,
    stages: Vec<Stage>,
    /// Of the stage under way.
    optimizer: Optimizer,
    progress: Progress,
    log: MetricsLog,
}

/// What a supervised run carries from step to step beside weights and optimizer.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Progress {
    /// Steps done, over all stages.
    step: usize,
    /// The stage under way, and the steps done in it.
    stage: usize,
    stage_step: usize,
    /// Steps skipped for a loss or gradient that was not finite.
    skipped: usize,
}

/// A step that was done.
pub struct SftStep<'a> {
    pub stage: &'a str,
    /// In its stage.
    pub step: usize,
    /// Of its stage, at most.
    pub steps: usize,
    pub metrics: &'a Metrics,
}

impl Sft {
    /// A fresh run in `trainer.run_dir`.
    ///
    /// # Errors
    /// Anything missing or malformed in configuration, data or model, before the run directory is made.
    pub fn start(config: Config, device: &Device) -> Result<Self, TrainError> {
        RunDir::refuse_existing(&config)?;
        Self::from_scratch(config, device)
    }

    fn from_scratch(config: Config, device: &Device) -> Result<Self, TrainError> {
        let device = device.clone().autodiff();
        let model = match config.sft.source {
            SftSource::Hopworld if config.model == ModelConfig::default() => {
                hopworld::model::untrained(config.trainer.seed, &device)
            }
            _ => {
                policy::load(&hub::locate(config.model_path()?, &mut |_, _, _| {})?, &config.model, &device)?
            }
        };
        Self::assemble(config, model, None, None)
    }

    /// The run in `trainer.run_dir`, from its newest checkpoint; from its start where it has none yet.
    ///
    /// # Errors
    /// As [`Sft::start`]; and a checkpoint or a configuration that does not fit.
    pub fn resume(config: Config, device: &Device) -> Result<Self, TrainError> {
        let run = RunDir::resume(&config)?;
        let Some(folder) = checkpoint::latest(&run)? else {
            return Self::from_scratch(config, device);
        };
        let start = hub::locate(&config.model.path, &mut |_, _, _| {})?;
        let weights = policy::weights(&config.model, &start, Some(&folder));
        let model = policy::load(weights, &config.model, &device.clone().autodiff())?;
        let progress = checkpoint::load_progress(&folder)?;
        let mut resumed = Self::assemble(config, model, Some(&folder), Some(progress))?;
        if resumed.progress.stage_step > 0 {
            checkpoint::load_optimizer(&folder, &mut resumed.optimizer)?;
        }
        Ok(resumed)
    }

    fn assemble(
        config: Config,
        mut model: LoadedModel,
        checkpoint: Option<&Path>,
        done: Option<Progress>,
    ) -> Result<Self, TrainError> {
        let progress = done.unwrap_or_default();
        model.decoder = policy::prepare(model.decoder, &config, checkpoint)?;
        let environment = Environment::new(&config, &model)?;
        let stages = stages(&config, &model.tokenizer)?;
        let stage = &stages[progress.stage.min(stages.len() - 1)];
        let optimizer = Optimizer::new(&stage.optimizer, stage.steps);
        let run = RunDir::create(&config)?;
        let log = MetricsLog::open(&run.metrics(), done.map(|progress| progress.step))?;
        Ok(Self { config, run, environment, model, stages, optimizer, progress, log })
    }

    /// Trains to the end of the last stage. Returns false if `observe` stopped it, by returning false; everything is
    /// saved then, too.
    ///
    /// # Errors
    /// A file that fails, or [`TrainError::NotLearnt`]. Checkpoints written before stay good.
    pub fn run(&mut self, observe: &mut dyn FnMut(SftStep<'_>) -> bool) -> Result<bool, TrainError> {
        while self.progress.stage < self.stages.len() {
            let metrics = self.step()?;
            self.log.append(&metrics)?;
            let Stage { name, steps, accuracy, .. } = self.stages[self.progress.stage];
            let step = self.progress.stage_step;
            let go_on = observe(SftStep { stage: name, step, steps, metrics: &metrics });

            let reached = accuracy.is_some_and(|wanted| metrics.get("sft/accuracy") >= Some(wanted));
            if reached || step == steps {
                if let (false, Some(wanted)) = (reached, accuracy) {
                    return Err(TrainError::NotLearnt { stage: name, steps, wanted });
                }
                self.next_stage();
            }
            let frequency = self.config.trainer.save_freq;
            let due = frequency > 0 && self.progress.step.is_multiple_of(frequency);
            let finished = self.progress.stage == self.stages.len();
            if due || finished || !go_on {
                let keep = self.config.trainer.max_checkpoints;
                let Self { config, run, model, optimizer, progress, .. } = self;
                let weights = Weights { model, config: &config.model };
                checkpoint::save(run, weights, optimizer, progress.step, progress, keep)?;
            }
            if !go_on {
                return Ok(finished);
            }
        }
        Ok(true)
    }

    /// One batch, one update.
    fn step(&mut self) -> Result<Metrics, TrainError> {
        let started = Instant::now();
        let stage = &mut self.stages[self.progress.stage];
        let step = self.progress.stage_step + 1;
        let batch = stage.source.batch(&self.environment, step, stage.batch_size)?;
        let tokens: usize = batch.iter().map(|example| example.ids().len()).sum();

        let Learnt { loss, accuracy, targets, gradients } =
            learn(&self.model.decoder, &batch, &self.config.trainer);
        let norm = global_norm(&self.model.decoder, &gradients);
        if (loss + norm).is_finite() {
            let decoder = self.model.decoder.clone();
            self.model.decoder = self.optimizer.step(step, decoder, gradients, norm);
        } else {
            self.progress.skipped += 1;
        }
        self.progress.step += 1;
        self.progress.stage_step = step;

        let seconds = started.elapsed().as_secs_f64();
        let mut metrics = Metrics::new(self.progress.step);
        metrics.set("sft/stage", self.progress.stage as f64);
        metrics.set("sft/loss", loss);
        metrics.set("sft/accuracy", accuracy);
        metrics.set("sft/targets", targets as f64);
        metrics.set("sft/grad_norm", norm);
        metrics.set("sft/lr", self.optimizer.learning_rate(step));
        metrics.set("sft/skipped_updates", self.progress.skipped as f64);
        metrics.set("timing_s/step", seconds);
        metrics.set("perf/throughput", tokens as f64 / seconds);
        Ok(metrics)
    }

    fn next_stage(&mut self) {
        self.progress.stage += 1;
        self.progress.stage_step = 0;
        if let Some(stage) = self.stages.get(self.progress.stage) {
            self.optimizer = Optimizer::new(&stage.optimizer, stage.steps);
        }
    }

    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    pub fn model(&self) -> &LoadedModel {
        &self.model
    }

    pub fn run_dir(&self) -> &RunDir {
        &self.run
    }
}
