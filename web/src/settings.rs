//! The part of an experiment file that a tab needs; the trainer reads the same file whole.

use rex_learner::config::{AlgorithmConfig, OptimizerConfig, ProbeConfig, RolloutConfig};
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Settings {
    data: Data,
    pub(crate) retriever: Retriever,
    pub(crate) rollout: RolloutConfig,
    #[serde(default)]
    pub(crate) probe: ProbeConfig,
    #[serde(default)]
    pub(crate) algorithm: AlgorithmConfig,
    #[serde(default)]
    pub(crate) optimizer: OptimizerConfig,
    pub(crate) trainer: Trainer,
}

#[derive(Deserialize)]
struct Data {
    prompt: String,
}

#[derive(Deserialize)]
pub(crate) struct Retriever {
    /// Passages that a search returns.
    pub(crate) topk: usize,
}

#[derive(Deserialize)]
pub(crate) struct Trainer {
    pub(crate) total_steps: usize,
    pub(crate) micro_batch_tokens: usize,
}

impl Settings {
    pub(crate) fn prompt(&self, question: &str) -> String {
        self.data.prompt.replace("{question}", question.trim())
    }
}
