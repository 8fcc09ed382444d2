//! Who watches a run: a terminal, a test, nobody.

use crate::evaluate::Evaluation;
use crate::metrics::Metrics;
use crate::warnings::Warning;

/// The long phases of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Transcripts finished.
    Rollouts,
    /// Forward and backward passes done.
    Update,
    /// Validation questions answered.
    Evaluation,
}

/// Callbacks of a run; each does nothing unless implemented.
pub trait Observer: Send {
    fn progress(&mut self, _phase: Phase, _done: usize, _total: usize) {}
    fn step(&mut self, _metrics: &Metrics) {}
    /// Something that the numbers of the step just reported show; said once a run.
    fn warning(&mut self, _warning: &Warning) {}
    fn evaluated(&mut self, _step: usize, _evaluation: &Evaluation) {}
    /// Asked after every step; true saves and ends the run.
    fn stop(&self) -> bool {
        false
    }
}

/// Nobody.
impl Observer for () {}
