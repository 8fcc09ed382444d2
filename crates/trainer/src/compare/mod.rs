//! The same configuration under several algorithms ([`Arm`]s) and seeds, side by side.
//!
//! Arms differ in what a step costs, so they are compared at equal numbers of generated tokens: every run's exact match is
//! taken as linear between its evaluations ([`Curve`]) and read at the largest number of tokens that all runs reached, and,
//! because arms may saturate, averaged over the tokens up to there. Seeds are resampled for the intervals ([`Estimate`]), and
//! differences to the baseline are paired by seed: runs of a seed see the same questions in the same order.
//!
//! This module starts no process and reads no run: `rex compare` does, and hands it what it read.

mod arms;
mod bootstrap;
mod comparison;
mod curve;
mod page;
mod plot;
mod tables;

pub use arms::{Arm, ArmError, BUILT_IN};
pub use bootstrap::Estimate;
pub use comparison::{ArmResult, Comparison, Difference, Measures, Run, compare};
pub use curve::Curve;
pub use page::html;
pub use tables::{Table, markdown, tables};
