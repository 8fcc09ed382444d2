//! Work on one decoder by several threads at once, where that is faster.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use burn::module::Module;

use crate::decoder::Decoder;

/// See [`Decoder::is_small`].
const SMALL: u128 = 16_000_000;

/// How many threads work at once on a decoder of so many parameters.
pub fn workers(parameters: u128) -> usize {
    if parameters <= SMALL { rayon::current_num_threads() } else { 1 }
}

impl Decoder {
    /// Whether its matrix products are too small to be worth splitting over cores. Independent work on a small decoder then
    /// runs side by side instead, each piece with activations (and a gradient) of its own.
    pub fn is_small(&self) -> bool {
        self.num_params() as u128 <= SMALL
    }

    /// Gives `take` what `pass` makes of every item, in the order of the items, so that a sum does not depend on timing.
    /// Passes over a small decoder run side by side.
    pub fn side_by_side<T: Sync, R: Send>(
        &self,
        items: &[T],
        pass: impl Fn(&Decoder, &T) -> R + Sync,
        mut take: impl FnMut(R),
    ) {
        if workers(self.num_params() as u128).min(items.len()) <= 1 {
            return items.iter().for_each(|item| take(pass(self, item)));
        }
        let (next, pass) = (AtomicUsize::new(0), &pass);
        // On the threads that would share a product, so that there are never more threads than cores.
        rayon::in_place_scope(|scope| {
            let (sender, results) = mpsc::channel();
            let next = &next;
            scope.spawn_broadcast(move |_, _| {
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
