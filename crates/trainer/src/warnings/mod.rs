//! What goes wrong in a run, seen in its numbers: each with the step, what was seen, and what to try.
//!
//! Recent steps are compared with the run's own first ones, because what is usual depends on model and data.

mod series;
#[cfg(test)]
mod tests;
mod thresholds;
mod watch;

pub use watch::{Kind, Warning, Watch, alpha_bound, of};
