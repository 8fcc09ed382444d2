//! A team over MPI.

use super::Place;
use anyhow::{Context, Result};
use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Equivalence};
use rex_trainer::Team;
use std::rc::Rc;

/// Does `work` as one of the processes that MPI started. Where one of several fails, all of them end: the others would wait for it
/// for ever.
///
/// # Errors
/// That of `work`, where there is one process.
pub fn together(work: impl FnOnce(Place) -> Result<()>) -> Result<()> {
    let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)
        .context("MPI was started twice in one process")?;
    let world = universe.world();
    let local = world.split_shared(world.rank()).rank() as usize;
    let team = Rc::new(Mpi(universe.world()));
    let several = team.size() > 1;
    let guard = several.then(|| AbortOnPanic(universe.world()));
    let result = work(Place { team, local });
    std::mem::forget(guard);
    match result {
        Err(error) if several => {
            eprintln!("rex: process {}: {error:#}", world.rank());
            world.abort(1)
        }
        result => result,
    }
}

/// Ends all processes when this one unwinds.
struct AbortOnPanic(SimpleCommunicator);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        self.0.abort(1);
    }
}

/// Numbers that one call sums: MPI counts in `int`.
const MOST: usize = 1 << 30;

struct Mpi(SimpleCommunicator);

impl Mpi {
    fn sum<T: Equivalence + Copy + Default>(&self, numbers: &mut [T]) {
        for numbers in numbers.chunks_mut(MOST) {
            let mut sum = vec![T::default(); numbers.len()];
            self.0.all_reduce_into(&*numbers, &mut sum[..], SystemOperation::sum());
            numbers.copy_from_slice(&sum);
        }
    }
}

impl Team for Mpi {
    fn rank(&self) -> usize {
        self.0.rank() as usize
    }

    fn size(&self) -> usize {
        self.0.size() as usize
    }

    fn gather(&self, own: &[u8]) -> Vec<Vec<u8>> {
        let int = |bytes: usize| i32::try_from(bytes).expect("a step's transcripts are less than 2 GiB");
        let mut lens = vec![0; self.size()];
        self.0.all_gather_into(&int(own.len()), &mut lens[..]);
        let starts: Vec<i32> = lens
            .iter()
            .scan(0usize, |end, &len| {
                let start = *end;
                *end += len as usize;
                Some(int(start))
            })
            .collect();
        let mut all = vec![0; lens.iter().map(|&len| len as usize).sum()];
        self.0.all_gather_varcount_into(own, &mut PartitionMut::new(&mut all[..], &lens[..], &starts[..]));
        starts
            .iter()
            .zip(&lens)
            .map(|(&start, &len)| all[start as usize..][..len as usize].to_vec())
            .collect()
    }

    fn sum_f32(&self, numbers: &mut [f32]) {
        self.sum(numbers);
    }

    fn sum_f64(&self, numbers: &mut [f64]) {
        self.sum(numbers);
    }
}
