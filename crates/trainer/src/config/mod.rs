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
pub use sft::{HopworldConfig, SftConfig, SftSource};
pub use tree::{
    AdvantageKind, AlgorithmConfig, AlgorithmName, Config, DataConfig, LoggingConfig, LossKind, ModelConfig,
    OptimizerConfig, Precision, ProbeConfig, RetrieverConfig, RolloutConfig, Schedule, TrainerConfig,
};
