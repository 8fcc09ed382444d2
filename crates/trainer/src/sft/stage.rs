//! The stages of a supervised run: what is learnt, for how long, how fast.

use super::example::Example;
use super::transcripts::read_examples;
use crate::config::{Config, OptimizerConfig, Schedule, SftSource};
use crate::environment::Environment;
use crate::error::TrainError;
use crate::hopworld::Lessons;
use crate::questions::Stream;
use rex_model::Tokenizer;

/// One stage.
pub(super) struct Stage {
    pub(super) name: &'static str,
    pub(super) source: Source,
    pub(super) batch_size: usize,
    /// At most.
    pub(super) steps: usize,
    /// The stage ends when a batch is known so well, and has failed if its steps end first.
    pub(super) accuracy: Option<f64>,
    pub(super) optimizer: OptimizerConfig,
}

/// Where its examples come from.
pub(super) enum Source {
    Transcripts(Stream<Example>),
    Hopworld(Lessons),
}

impl Source {
    /// The batch of a step; the same for the same seed and step.
    pub(super) fn batch(
        &mut self,
        environment: &Environment,
        step: usize,
        size: usize,
    ) -> Result<Vec<Example>, TrainError> {
        match self {
            Self::Transcripts(stream) => {
                stream.seek((step - 1) * size);
                Ok(stream.draw(size))
            }
            Self::Hopworld(lessons) => lessons.batch(environment, step as u64, size),
        }
    }
}

/// The stages of a configuration.
pub(super) fn stages(config: &Config, tokenizer: &Tokenizer) -> Result<Vec<Stage>, TrainError> {
    let stage = |name, source| Stage {
        name,
        source,
        batch_size: config.data.train_batch_size,
        steps: config.trainer.total_steps,
        accuracy: None,
        optimizer: config.optimizer.clone(),
    };
    let seed = config.trainer.seed;
    match config.sft.source {
        SftSource::Transcripts => {
            let mut examples = Vec::new();
            for file in config.train_files()? {
                let limit = config.rollout.max_prompt_length;
                examples.extend(read_examples(file, tokenizer, config.sft.learn_probes, limit)?);
            }
            let stream = Stream::new(examples, config.data.shuffle, seed, 0);
            Ok(vec![stage("transcripts", Source::Transcripts(stream))])
        }
        SftSource::Hopworld => {
            let settings = &config.sft.hopworld;
            let lessons = |drills| {
                // Each stage has random streams of its own.
                let seed = seed << 1 | u64::from(drills == 1.0);
                Source::Hopworld(Lessons { settings: settings.clone(), drills, seed })
            };
            let drills = Stage {
                batch_size: settings.drill_batch_size,
                steps: settings.drill_steps,
                accuracy: Some(settings.drill_accuracy),
                optimizer: OptimizerConfig {
                    lr: settings.drill_lr,
                    schedule: Schedule::Constant,
                    ..config.optimizer.clone()
                },
                ..stage("drills", lessons(1.0))
            };
            Ok(vec![drills, stage("demonstrations", lessons(settings.drill_share))])
        }
    }
}
