//! The processes of a run: those that `mpirun` or `srun` started, in a build with the feature `mpi`; in others, this one.

#[cfg(feature = "mpi")]
mod mpi;

use rex_trainer::Team;
use std::rc::Rc;

/// This process's place in a run.
pub struct Place {
    pub team: Rc<dyn Team>,
    /// Its number among the team's processes on this machine.
    pub local: usize,
}

/// Does `work`.
///
/// # Errors
/// That of `work`.
#[cfg(not(feature = "mpi"))]
pub fn together(work: impl FnOnce(Place) -> anyhow::Result<()>) -> anyhow::Result<()> {
    work(Place { team: Rc::new(rex_trainer::Alone), local: 0 })
}

#[cfg(feature = "mpi")]
pub use mpi::together;
