//! Several retrievers, each over a part of the corpus, as one.

use rex_rollout::{Passage, RetrievalError, Retriever};
use std::thread;

/// Asks all parts at once and merges what they find by score.
///
/// Scores must be comparable. BM25's nearly are where the passages were dealt out at random, so that the parts agree on how
/// rare a word is; inner products of one encoder always are.
pub struct Shards<R> {
    parts: Vec<R>,
}

impl<R: Retriever> Shards<R> {
    pub fn new(parts: Vec<R>) -> Self {
        Self { parts }
    }
}

impl<R: Retriever> Retriever for Shards<R> {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        let mut merged: Vec<Vec<Passage>> = queries.iter().map(|_| Vec::new()).collect();
        thread::scope(|scope| {
            let parts: Vec<_> =
                self.parts.iter().map(|part| scope.spawn(move || part.retrieve(queries, topk))).collect();
            for part in parts {
                let found = part.join().expect("asking does not panic")?;
                for (list, passages) in merged.iter_mut().zip(found) {
                    list.extend(passages);
                }
            }
            Ok::<_, RetrievalError>(())
        })?;
        for list in &mut merged {
            // Stable: between equal scores the earlier part wins, and one part's list without scores stays as it is.
            list.sort_by(|a, b| b.score.total_cmp(&a.score));
            list.truncate(topk);
        }
        Ok(merged)
    }
}
