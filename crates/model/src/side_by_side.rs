//! Work on one decoder by several threads at once, where that is faster.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use burn::module::Module;

use crate::decoder::Decoder;

/// See [`Decoder::is_small`].
const SMALL: u128 = 16_000_000;

/// How many passes over a decoder of so many parameters a CPU computes at once, where that is not configured.
pub fn passes_at_once(parameters: u128) -> usize {
    if parameters <= SMALL { rayon::current_num_threads() } else { 1 }
}

impl Decoder {
    /// Whether its matrix products are too small to be worth splitting over cores. Independent work on a small decoder then
    /// runs side by side instead, each piece with activations (and a gradient) of its own. A device with memory of its own
    /// computes in one queue, so that threads would only wait for each other.
    pub fn is_small(&self) -> bool {
        self.num_params() as u128 <= SMALL && self.device().memory_pool_usage().is_none()
    }

    /// Gives `take` what `pass` makes of every item, in the order of the items, so that a sum does not depend on timing.
    /// `at_once` passes run side by side; without it those over a small decoder, on all cores.
    pub fn side_by_side<T: Sync, R: Send>(
        &self,
        items: &[T],
        at_once: Option<NonZero<usize>>,
        pass: impl Fn(&Decoder, &T) -> R + Sync,
        mut take: impl FnMut(R),
    ) {
        let cores = rayon::current_num_threads();
        let at_once = at_once.map_or_else(|| if self.is_small() { cores } else { 1 }, NonZero::get);
        let at_once = at_once.min(cores).min(items.len());
        if at_once <= 1 {
            return items.iter().for_each(|item| take(pass(self, item)));
        }
        let (started, next, pass) = (AtomicUsize::new(0), AtomicUsize::new(0), &pass);
        // On the threads that would share a product, so that there are never more threads than cores.
        rayon::in_place_scope(|scope| {
            let (sender, results) = mpsc::channel();
            let (started, next) = (&started, &next);
            scope.spawn_broadcast(move |_, _| {
                // The other threads take their part in the products.
                if started.fetch_add(1, Ordering::Relaxed) >= at_once {
                    return;
                }
                // Leaves of its own, so that no graph is shared between threads.
                let decoder = self.clone().fork(&self.device());
                while let place = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(place)
                {
                    sender.send((place, pass(&decoder, item))).expect("the receiver outlives the threads");
                }
            });
            let (mut early, mut wanted) = (BTreeMap::new(), 0);
            for (place, result) in results {
                early.insert(place, result);
                while let Some(result) = early.remove(&wanted) {
                    take(result);
                    wanted += 1;
                }
            }
        });
    }
}
