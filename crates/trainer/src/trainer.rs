//! A run: what it is made of, how it starts or goes on, and its loop of steps.

use crate::checkpoint::{self, Progress, Weights};
use crate::config::Config;
use crate::data::{Question, read_questions};
use crate::environment::Environment;
use crate::error::TrainError;
use crate::evaluate::{evaluate, first_of_each_source};
use crate::hub;
use crate::metrics::{self, Metrics, MetricsLog};
use crate::objective::Objective;
use crate::observer::{Observer, Phase};
use crate::optimizer::Optimizer;
use crate::policy;
use crate::questions::Stream;
use crate::rollout_log::{self, Logged};
use crate::run_dir::RunDir;
use crate::sampler::{Event, Rollout};
use crate::warnings::Watch;
use burn::module::Module;
use burn::tensor::Device;
use rex_grpo::{KeepRatio, PromptTrie};
use rex_model::{Decoder, LoadedModel, Sampling};
use std::path::Path;
use std::time::Instant;

/// Everything that a run holds in memory.
pub struct Trainer {
    pub(crate) config: Config,
    pub(crate) run: RunDir,
    pub(crate) environment: Environment,
    /// Counts the pool's prompts as they are encoded.
    pub(crate) trie: PromptTrie,
    pub(crate) questions: Stream<Question>,
    validation: Vec<Question>,
    /// The policy, on a device that records gradients.
    pub(crate) model: LoadedModel,
    /// The frozen starting point, where a KL term needs it.
    pub(crate) reference: Option<Decoder>,
    pub(crate) objective: Objective,
    pub(crate) optimizer: Optimizer,
    pub(crate) progress: Progress,
    log: MetricsLog,
    watch: Watch,
}

impl Trainer {
    /// A fresh run in `trainer.run_dir`.
    ///
    /// # Errors
    /// Anything missing or malformed in configuration, data or model, before the run directory is made.
    pub fn start(config: Config, device: &Device) -> Result<Self, TrainError> {
        let progress = Progress {
            step: 0,
            questions: 0,
            skipped: 0,
            keep_ratio: KeepRatio::new(config.probe.keep_ratio),
        };
        RunDir::refuse_existing(&config)?;
        Self::assemble(config, device, None, progress)
    }

    /// The run in `trainer.run_dir`, from its newest checkpoint; from its start where it has none yet.
    ///
    /// # Errors
    /// As [`Trainer::start`]; and a checkpoint or a configuration that does not fit.
    pub fn resume(config: Config, device: &Device) -> Result<Self, TrainError> {
        let run = RunDir::resume(&config)?;
        match checkpoint::latest(&run)? {
            Some(folder) => {
                let progress: Progress = checkpoint::load_progress(&folder)?;
                Self::assemble(config, device, Some(&folder), progress)
            }
            None => {
                let keep_ratio = KeepRatio::new(config.probe.keep_ratio);
                Self::assemble(
                    config,
                    device,
                    None,
                    Progress { step: 0, questions: 0, skipped: 0, keep_ratio },
                )
            }
        }
    }

    fn assemble(
        config: Config,
        device: &Device,
        checkpoint: Option<&Path>,
        progress: Progress,
    ) -> Result<Self, TrainError> {
        let start = &hub::locate(config.model_path()?, &mut |_, _, _| {})?;
        let questions = read_all(config.train_files()?)?;
        let validation =
            if config.trainer.test_freq > 0 { read_all(&config.data.val_files)? } else { Vec::new() };
        let weights = policy::weights(&config.model, start, checkpoint);
        let mut model = policy::load(weights, &config.model, &device.clone().autodiff())?;
        let reference = (config.algorithm.kl_loss_coef > 0.0)
            .then(|| match weights == start {
                // The policy's weights are shared: they are replaced when it is trained, or frozen by its adapters.
                true => Ok(model.decoder.valid()),
                false => policy::load(start, &config.model, device).map(|reference| reference.decoder),
            })
            .transpose()?;
        model.decoder = policy::prepare(model.decoder, &config, checkpoint)?;
        let environment = Environment::new(&config, &model)?;
        // A prompt that is too long is found now, not at step 300.
        for question in questions.iter().chain(&validation) {
            environment.task(question)?;
        }
        let mut optimizer = Optimizer::new(&config.optimizer, config.trainer.total_steps);
        if let Some(folder) = checkpoint {
            checkpoint::load_optimizer(folder, &mut optimizer)?;
        }
        let (shuffle, seed) = (config.data.shuffle, config.trainer.seed);
        let run = RunDir::create(&config)?;
        let log = MetricsLog::open(&run.metrics(), checkpoint.map(|_| progress.step))?;
        // What the run was warned of before it was resumed is not said again.
        let mut watch = Watch::new(&config);
        metrics::read(&run.metrics())?.0.iter().for_each(|metrics| drop(watch.see(metrics)));
        let limit = if config.data.val_limit > 0 { config.data.val_limit } else { usize::MAX };
        Ok(Self {
            trie: PromptTrie::new(environment.pool().prompts()),
            questions: Stream::new(questions, shuffle, seed, progress.questions),
            validation: validation.into_iter().take(limit).collect(),
            objective: Objective::new(&config.algorithm, &config.rollout),
            log,
            watch,
            config,
            run,
            environment,
            model,
            reference,
            optimizer,
            progress,
        })
    }

    /// Trains up to `trainer.total_steps`, with evaluations and checkpoints on the way. Returns false if the observer
    /// stopped it; everything is saved then, too.
    ///
    /// # Errors
    /// A search or a file that fails. Checkpoints written before stay good.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<bool, TrainError> {
        let total = self.config.trainer.total_steps;
        if self.progress.step == 0 && self.config.trainer.val_before_train {
            self.evaluate(observer)?;
        }
        while self.progress.step < total {
            let metrics = self.step(observer)?;
            self.log.append(&metrics)?;
            observer.step(&metrics);
            self.warn(&metrics, observer);

            let step = self.progress.step;
            let due = |frequency: usize| frequency > 0 && step.is_multiple_of(frequency);
            if due(self.config.trainer.test_freq) || (step == total && self.config.trainer.test_freq > 0) {
                self.evaluate(observer)?;
            }
            let stop = observer.stop();
            if due(self.config.trainer.save_freq) || step == total || stop {
                let keep = self.config.trainer.max_checkpoints;
                checkpoint::save(&self.run, self.weights(), &self.optimizer, step, &self.progress, keep)?;
            }
            if stop {
                return Ok(step == total);
            }
        }
        Ok(true)
    }

    /// Scores the policy on the validation questions, by the likeliest token.
    fn evaluate(&mut self, observer: &mut dyn Observer) -> Result<(), TrainError> {
        if self.validation.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        let (step, total) = (self.progress.step, self.validation.len());
        let mut done = 0;
        let mut observe = |event: Event<'_>| {
            if let Event::Finished { .. } = event {
                done += 1;
                observer.progress(Phase::Evaluation, done, total);
            }
        };
        let policy = self.model.decoder.frozen();
        let seed = self.config.trainer.seed;
        let (evaluation, rollouts) =
            evaluate(&self.environment, &policy, &self.validation, Sampling::Greedy, seed, &mut observe)?;
        self.log_validation(step, &rollouts)?;
        let mut metrics = evaluation.metrics(step);
        metrics.set("timing_s/testing", started.elapsed().as_secs_f64());
        self.log.append(&metrics)?;
        observer.evaluated(step, &evaluation);
        Ok(())
    }

    /// Keeps some transcripts of an evaluation, of the same questions every time.
    fn log_validation<'r>(&'r self, step: usize, rollouts: &'r [Rollout]) -> Result<(), TrainError> {
        let count = self.config.logging.val_rollouts;
        if count == 0 {
            return Ok(());
        }
        let chosen = first_of_each_source(rollouts, &self.validation, count);
        let line = |rollout: &'r Rollout| Logged {
            rollout,
            question: &self.validation[rollout.task],
            reward: self.reward(rollout),
            learnt: None,
        };
        let lines: Vec<Logged<'_>> = chosen.into_iter().map(line).collect();
        rollout_log::write(&self.run.val_rollouts(step), step, &lines, self.environment.codec())
    }

    fn weights(&self) -> Weights<'_> {
        Weights { model: &self.model, config: &self.config.model }
    }

    fn warn(&mut self, metrics: &Metrics, observer: &mut dyn Observer) {
        for warning in self.watch.see(metrics) {
            observer.warning(&warning);
        }
    }

    pub fn run_dir(&self) -> &RunDir {
        &self.run
    }
}

fn read_all(files: &[std::path::PathBuf]) -> Result<Vec<Question>, TrainError> {
    let mut questions = Vec::new();
    for file in files {
        questions.extend(read_questions(file)?);
    }
    Ok(questions)
}
