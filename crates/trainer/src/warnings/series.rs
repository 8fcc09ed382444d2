//! The ends of a sequence of numbers.

use super::thresholds::WINDOW;
use crate::metrics::mean;
use std::collections::VecDeque;

/// The first and the last few values of one number.
#[derive(Debug, Default)]
pub(super) struct Series {
    first: Vec<f64>,
    last: VecDeque<f64>,
    seen: usize,
}

impl Series {
    pub(super) fn push(&mut self, value: Option<f64>) {
        let Some(value) = value else { return };
        self.seen += 1;
        if self.first.len() < WINDOW {
            self.first.push(value);
        }
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        self.last.push_back(value);
    }

    /// Means of the first and the last values, once they are different ones.
    pub(super) fn change(&self) -> Option<(f64, f64)> {
        let start = mean(self.first.iter().copied());
        (self.seen >= 2 * WINDOW).then_some(start).zip(self.now())
    }

    /// Mean of the last values, once there are enough.
    pub(super) fn now(&self) -> Option<f64> {
        (self.seen >= WINDOW).then(|| mean(self.last.iter().copied()))
    }

    /// The last value.
    pub(super) fn latest(&self) -> Option<f64> {
        self.last.back().copied()
    }
}
