//! The processes that train together: each draws the transcripts of some questions and computes the gradient of some passes;
//! everything else, all of them compute alike from what all have found.
//!
//! Filter, advantages, mixture, keep ratio and statistics therefore need no global version: every process has the whole batch. What
//! travels is transcripts, two numbers a token of the loss, and gradients.

mod gradients;

pub(crate) use gradients::sum_gradients;

use std::ops::Range;

/// Processes that run in step. Every method but the first two is called by all of them, in the same order, and returns when
/// all have called it; if one is lost, the others end.
pub trait Team {
    /// This process among them, from 0, which is the one that writes files.
    fn rank(&self) -> usize;

    fn size(&self) -> usize;

    /// What each has, in the order of the ranks.
    fn gather(&self, own: &[u8]) -> Vec<Vec<u8>>;

    /// Replaces every number by its sum over all; all get the same bits.
    fn sum_f32(&self, numbers: &mut [f32]);

    /// As [`sum_f32`](Self::sum_f32).
    fn sum_f64(&self, numbers: &mut [f64]);
}

/// One process.
pub struct Alone;

impl Team for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn gather(&self, own: &[u8]) -> Vec<Vec<u8>> {
        vec![own.to_vec()]
    }

    fn sum_f32(&self, _: &mut [f32]) {}

    fn sum_f64(&self, _: &mut [f64]) {}
}

impl dyn Team + '_ {
    /// Whether this process is the one that writes files.
    pub fn leads(&self) -> bool {
        self.rank() == 0
    }

    /// Whether it is so for any of them.
    pub fn any(&self, own: bool) -> bool {
        let mut sum = [f64::from(own)];
        self.sum_f64(&mut sum);
        sum[0] > 0.0
    }

    /// This process's part of `count` things, side by side.
    pub fn share(&self, count: usize) -> Range<usize> {
        count * self.rank() / self.size()..count * (self.rank() + 1) / self.size()
    }

    /// This process's part of things that come sorted by size: dealt out in turn, the work is even.
    pub(crate) fn deal<'t, T>(&self, things: &'t [T]) -> impl Iterator<Item = &'t T> + use<'t, T> {
        things.iter().skip(self.rank()).step_by(self.size())
    }
}
