//! The keys of supervised training. It shares the others: `data`, `optimizer` and `trainer` are read as in `rex train`.

use serde::{Deserialize, Serialize};

/// What `rex sft` learns from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SftConfig {
    pub source: SftSource,
    /// Learn the exploration prompts of transcripts (author `probe`), too.
    pub learn_probes: bool,
    pub hopworld: HopworldConfig,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SftSource {
    /// The files of `data.train_files`.
    #[default]
    Transcripts,
    /// Lessons on a fresh world a batch; without `model.path` they start from an untrained model.
    Hopworld,
}

/// Hopworld's lessons: drills until they are known, then demonstrations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HopworldConfig {
    /// People in a world.
    pub people: usize,
    pub drill_batch_size: usize,
    pub drill_lr: f64,
    /// Drills end when so large a share of a batch is known,
    pub drill_accuracy: f64,
    /// and the run fails if it is not after so many steps.
    pub drill_steps: usize,
    /// Share of drills kept among the demonstrations.
    pub drill_share: f64,
    /// Share of demonstrations in which an exploration prompt is put in and the question followed to its end; the others
    /// stop after the first search.
    pub explored: f64,
    /// Weight in the loss of an exploration prompt's first token: the smaller, the more seldom the model begins one by
    /// itself. How seldom is measured at the end of the run.
    pub chosen: f64,
}

impl Default for HopworldConfig {
    fn default() -> Self {
        Self {
            people: 200,
            drill_batch_size: 32,
            drill_lr: 2e-3,
            drill_accuracy: 0.9,
            drill_steps: 3000,
            drill_share: 0.25,
            explored: 0.6,
            chosen: 1e-4,
        }
    }
}
