//! The experiment file: one serde tree, every default in one place, unknown keys refused.
//!
//! Layers, later ones win: built-in defaults, the preset that `algorithm.name` stands for, the TOML file, and
//! the `key=value` words of the command line. [`Config::load`] merges them, checks every key against the known
//! ones and validates the values; the merged tree is what a run saves as its `config.toml`.

mod error;
mod layers;
mod presets;
mod sft;
mod tree;
mod validate;

pub use error::ConfigError;
pub use rex_learner::config::{
    AdvantageKind, AlgorithmConfig, AlgorithmName, LossKind, OptimizerConfig, ProbeConfig, RolloutConfig,
    Schedule,
};
pub use sft::{HopworldConfig, SftConfig, SftSource};
pub use tree::{Config, DataConfig, LoggingConfig, ModelConfig, Precision, RetrieverConfig, TrainerConfig};
