//! A run: what it is made of, how it starts or goes on, and its loop of steps.

use crate::checkpoint::{self, Progress, Weights};
use crate::config::Config;
use crate::data::{Question, read_questions};
use crate::environment::Environment;
use crate::error::TrainError;
use crate::evaluate::{evaluate, first_of_each_source};
use crate::hub;
use crate::metrics::{self, Metrics, MetricsLog};
use crate::observer::{Observer, Phase};
use crate::policy;
use crate::questions::Stream;
use crate::rollout_log::{self, Logged};
use crate::run_dir::RunDir;
use crate::sampler::{Event, Rollout};
use crate::team::check_start;
use crate::warnings::Watch;
use burn::module::Module;
use burn::tensor::Device;
use rex_grpo::KeepRatio;
use rex_learner::{Learner, LearnerConfig, Team};
use rex_model::{LoadedModel, Sampling};
use std::num::NonZero;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// Everything that a run holds in memory.
pub struct Trainer {
    pub(crate) config: Config,
    pub(crate) run: RunDir,
    pub(crate) environment: Environment,
    pub(crate) questions: Stream<Question>,
    validation: Vec<Question>,
    /// The policy, on a device that records gradients.
    pub(crate) model: LoadedModel,
    pub(crate) learner: Learner,
    pub(crate) progress: Progress,
    /// The processes that share the work. The first writes the files.
    pub(crate) team: Rc<dyn Team>,
    /// Of the first process.
    log: Option<MetricsLog>,
    watch: Watch,
}

impl Trainer {
    /// A fresh run in `trainer.run_dir`, by all processes of a team together.
    ///
    /// # Errors
    /// Anything missing or malformed in configuration, data or model, before the run directory is made.
    pub fn start(config: Config, device: &Device, team: Rc<dyn Team>) -> Result<Self, TrainError> {
        let progress = Progress {
            step: 0,
            questions: 0,
            skipped: 0,
            keep_ratio: KeepRatio::new(config.probe.keep_ratio),
        };
        if team.leads() {
            RunDir::refuse_existing(&config)?;
        }
        Self::assemble(config, device, team, None, progress)
    }

    /// The run in `trainer.run_dir`, from its newest checkpoint; from its start where it has none yet.
    ///
    /// # Errors
    /// As [`Trainer::start`]; and a checkpoint or a configuration that does not fit.
    pub fn resume(config: Config, device: &Device, team: Rc<dyn Team>) -> Result<Self, TrainError> {
        let run = RunDir::resume(&config)?;
        match checkpoint::latest(&run)? {
            Some(folder) => {
                let progress: Progress = checkpoint::load_progress(&folder)?;
                Self::assemble(config, device, team, Some(&folder), progress)
            }
            None => {
                let keep_ratio = KeepRatio::new(config.probe.keep_ratio);
                let progress = Progress { step: 0, questions: 0, skipped: 0, keep_ratio };
                Self::assemble(config, device, team, None, progress)
            }
        }
    }

    fn assemble(
        config: Config,
        device: &Device,
        team: Rc<dyn Team>,
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
        check_start(team.as_ref(), &config, &questions, &model.decoder)?;
        let environment = Environment::new(&config, &model)?;
        // A prompt that is too long is found now, not at step 300.
        for question in questions.iter().chain(&validation) {
            environment.task(question)?;
        }
        let learner = LearnerConfig {
            rollout: &config.rollout,
            probe: &config.probe,
            algorithm: &config.algorithm,
            optimizer: &config.optimizer,
            total_steps: config.trainer.total_steps,
            seed: config.trainer.seed,
            micro_batch_tokens: config.trainer.micro_batch_tokens,
            passes_at_once: NonZero::new(config.trainer.passes_at_once),
            activations: config.trainer.activations(),
        };
        let mut learner = Learner::new(learner, environment.pool(), reference);
        if let Some(folder) = checkpoint {
            checkpoint::load_optimizer(folder, &mut learner.optimizer)?;
        }
        let (shuffle, seed) = (config.data.shuffle, config.trainer.seed);
        let (run, log) = if team.leads() {
            let run = RunDir::create(&config)?;
            let log = MetricsLog::open(&run.metrics(), checkpoint.map(|_| progress.step))?;
            (run, Some(log))
        } else {
            (RunDir::at(&config.trainer.run_dir), None)
        };
        // What the run was warned of before it was resumed is not said again.
        let mut watch = Watch::new(&config);
        metrics::read(&run.metrics())?.0.iter().for_each(|metrics| drop(watch.see(metrics)));
        let limit = if config.data.val_limit > 0 { config.data.val_limit } else { usize::MAX };
        Ok(Self {
            questions: Stream::new(questions, shuffle, seed, progress.questions),
            validation: validation.into_iter().take(limit).collect(),
            team,
            log,
            watch,
            config,
            run,
            environment,
            model,
            learner,
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
            self.record(&metrics)?;
            observer.step(&metrics);
            self.warn(&metrics, observer);

            let step = self.progress.step;
            let due = |frequency: usize| frequency > 0 && step.is_multiple_of(frequency);
            if due(self.config.trainer.test_freq) || (step == total && self.config.trainer.test_freq > 0) {
                self.evaluate(observer)?;
            }
            let stop = self.team.any(observer.stop());
            if self.team.leads() && (due(self.config.trainer.save_freq) || step == total || stop) {
                let keep = self.config.trainer.max_checkpoints;
                checkpoint::save(
                    &self.run,
                    self.weights(),
                    &self.learner.optimizer,
                    step,
                    &self.progress,
                    keep,
                )?;
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
        let team = self.team.as_ref();
        let (step, total) = (self.progress.step, team.share(self.validation.len()).len());
        let mut done = 0;
        let mut observe = |event: Event<'_>| {
            if let Event::Finished { .. } = event {
                done += 1;
                observer.progress(Phase::Evaluation, done, total);
            }
        };
        let policy = self.model.decoder.frozen();
        let seed = self.config.trainer.seed;
        let (evaluation, rollouts) = evaluate(
            team,
            &self.environment,
            &policy,
            &self.validation,
            Sampling::Greedy,
            seed,
            &mut observe,
        )?;
        self.log_validation(step, &rollouts)?;
        let mut metrics = evaluation.metrics(step);
        metrics.set("timing_s/testing", started.elapsed().as_secs_f64());
        self.record(&metrics)?;
        observer.evaluated(step, &evaluation);
        Ok(())
    }

    /// Keeps some transcripts of an evaluation, of the same questions every time.
    fn log_validation<'r>(&'r self, step: usize, rollouts: &'r [Rollout]) -> Result<(), TrainError> {
        let count = self.config.logging.val_rollouts;
        if count == 0 || !self.team.leads() {
            return Ok(());
        }
        let chosen = first_of_each_source(rollouts, &self.validation, count);
        let line = |rollout: &'r Rollout| Logged {
            rollout,
            question: &self.validation[rollout.task],
            reward: self.learner.reward(rollout),
            learnt: None,
        };
        let lines: Vec<Logged<'_>> = chosen.into_iter().map(line).collect();
        rollout_log::write(&self.run.val_rollouts(step), step, &lines, self.environment.codec())
    }

    fn record(&mut self, metrics: &Metrics) -> Result<(), TrainError> {
        self.log.iter_mut().try_for_each(|log| log.append(metrics))
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
