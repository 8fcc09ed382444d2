//! Advantages: how much better a transcript was than what its question usually earns.
//!
//! [`Advantage`] is what a training run chooses from: one reward per transcript in, one advantage per transcript
//! out. [`outcome`] holds its formulas, [`dense`] those with a reward per token. All in `f64` on the host.

pub mod dense;
mod groups;
pub mod outcome;
mod whiten;

pub use groups::{groups_without_spread, unrewarded_groups};
pub use outcome::{Advantage, Singleton};
