//! From sampled transcripts to updated weights, without files, clocks or threads: what the trainer and the browser share.
//!
//! Reading order: [`config`], the groups of an experiment file that say how; [`Learner`], the story from the transcripts of a step
//! to its updates; [`Batch`], what the loss needs of them; [`Objective`], a pass's part of the loss and its gradient;
//! [`optimizer`]; [`Team`], the processes that share the work.

pub mod batch;
pub mod config;
mod found;
mod learner;
pub mod objective;
pub mod optimizer;
pub mod passes;
pub mod team;

pub use batch::{Batch, Row};
pub use found::{Found, Updates};
pub use learner::{Learner, LearnerConfig, Selected};
pub use objective::{Evaluated, Models, Objective};
pub use optimizer::Optimizer;
pub use team::{Alone, Team};
