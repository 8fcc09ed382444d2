//! The passes of a batch, side by side where that is faster.

use burn::module::Module;
use rex_model::Decoder;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The matrix products of a model up to this many parameters are too small to be worth splitting over cores: its passes
/// run side by side instead, each with activations and a gradient of its own.
const SMALL: u128 = 16_000_000;

/// Splits items of `len` tokens each into passes of at most `tokens` tokens, padding included; items of like length go
/// together, and one that is longer than that has a pass to itself.
pub(crate) fn split<'t, T>(items: &[&'t T], len: impl Fn(&T) -> usize, tokens: usize) -> Vec<Vec<&'t T>> {
    let mut sorted = items.to_vec();
    sorted.sort_by_key(|item| std::cmp::Reverse(len(item)));
    let mut passes: Vec<Vec<&T>> = Vec::new();
    for item in sorted {
        match passes.last_mut() {
            Some(pass) if (pass.len() + 1) * len(pass[0]) <= tokens => pass.push(item),
            _ => passes.push(vec![item]),
        }
    }
    passes
}

/// How many passes of a model with so many parameters run at once.
pub(crate) fn side_by_side(parameters: u128) -> usize {
    if parameters <= SMALL { rayon::current_num_threads() } else { 1 }
}

/// Gives `take` what `pass` makes of every item, in the order of the items, so that a sum does not depend on timing.
pub(crate) fn run<T: Sync, R: Send>(
    policy: &Decoder,
    items: &[T],
    pass: impl Fn(&Decoder, &T) -> R + Sync,
    mut take: impl FnMut(R),
) {
    let threads = side_by_side(policy.num_params() as u128);
    if threads.min(items.len()) <= 1 {
        return items.iter().for_each(|item| take(pass(policy, item)));
    }
    let (next, pass) = (AtomicUsize::new(0), &pass);
    thread::scope(|scope| {
        let (sender, results) = mpsc::channel();
        for _ in 0..threads.min(items.len()) {
            // Leaves of its own, so that no graph is shared between threads.
            let policy = policy.clone().fork(&policy.device());
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let place = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(place)
                {
                    sender.send((place, pass(&policy, item))).expect("the receiver outlives the threads");
                }
            });
        }
        drop(sender);
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
