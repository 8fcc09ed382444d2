//! The REX-RAG training loop: native, with files and a clock, around the three crates that have neither.
//!
//! Reading order: [`config`], the experiment file; [`data`], questions and corpora; [`retrieval`], search over the network;
//! [`environment`], what the policy acts in;
//! [`sampler`], which drives a step's episodes; `step`, the story of one training step, and [`learner`], of what it learns; [`trainer`], the run; [`checkpoint`], [`metrics`] and [`run_dir`], what is left of it;
//! [`warnings`] and [`report`], what to make of that; [`history`], a run read back, and [`compare`], several of them side by
//! side.

mod axis;
#[cfg(test)]
mod bytes;
pub mod card;
pub mod checkpoint;
pub mod compare;
pub mod config;
pub mod coverage;
pub mod data;
pub mod environment;
mod error;
pub mod evaluate;
pub mod history;
pub mod hopworld;
mod html;
pub mod hub;
mod memory;
pub mod metrics;
pub mod observer;
mod policy;
pub mod quantity;
pub mod questions;
pub mod report;
pub mod retrieval;
pub mod rollout_log;
pub mod run_dir;
pub mod sft;
mod step;
mod step_metrics;
mod team;
mod tensorboard;
pub mod trainer;
pub mod warnings;

/// The driver of a step's episodes.
pub use rex_sampler as sampler;

/// From transcripts to updated weights.
pub use rex_learner as learner;

pub use environment::Environment;
pub use error::TrainError;
pub use evaluate::{Evaluation, SourceScores, evaluate};
pub use history::History;
pub use memory::{Estimate, estimate};
pub use metrics::Metrics;
pub use observer::{Observer, Phase};
pub use policy::load as load_model;
pub use rex_learner::{Alone, Team};
pub use run_dir::RunDir;
pub use sampler::{Draw, Event, Origin, ProbeStart, Probing, Rollout, Sampler, Task};
pub use sft::Sft;
pub use trainer::Trainer;
pub use warnings::Warning;
