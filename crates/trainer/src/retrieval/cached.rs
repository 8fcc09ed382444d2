//! A retriever that is asked each query once.

use lru::LruCache;
use rex_rollout::{Passage, RetrievalError, Retriever};
use std::collections::{HashMap, HashSet};
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

/// Remembers the answers to the latest queries. The rollouts of a group ask the same things.
///
/// What stands behind it must not change during a run.
pub struct Cached<R> {
    inner: R,
    answers: Mutex<LruCache<Key, Vec<Passage>>>,
}

type Key = (String, usize);

impl<R: Retriever> Cached<R> {
    /// Keeps the answers to `capacity` queries.
    pub fn new(inner: R, capacity: NonZeroUsize) -> Self {
        Self { inner, answers: Mutex::new(LruCache::new(capacity)) }
    }
}

impl<R: Retriever> Retriever for Cached<R> {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        let lock = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<Option<Vec<Passage>>> = {
            let mut answers = lock();
            queries.iter().map(|query| answers.get(&(query.to_string(), topk)).cloned()).collect()
        };
        let mut seen = HashSet::new();
        let unknown: Vec<&str> = (queries.iter().zip(&found))
            .filter(|(query, found)| found.is_none() && seen.insert(**query))
            .map(|(query, _)| *query)
            .collect();
        if unknown.is_empty() {
            return Ok(found.into_iter().flatten().collect());
        }
        let fresh: HashMap<&str, Vec<Passage>> =
            unknown.iter().copied().zip(self.inner.retrieve(&unknown, topk)?).collect();
        for (query, found) in queries.iter().zip(&mut found) {
            found.get_or_insert_with(|| fresh[query].clone());
        }
        let mut answers = lock();
        for (query, passages) in fresh {
            answers.put((query.to_string(), topk), passages);
        }
        Ok(found.into_iter().flatten().collect())
    }
}
