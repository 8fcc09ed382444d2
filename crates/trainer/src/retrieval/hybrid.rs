//! Two retrievers as one, by reciprocal-rank fusion.

use rex_rollout::{Passage, RetrievalError, Retriever};
use std::collections::HashMap;

/// Fuses the lists of two retrievers: `score = Σ 1 / (60 + rank)` over the lists that hold a passage, ranks from 1 (Cormack,
/// Clarke and Büttcher, SIGIR 2009). Scores of different kinds need not be comparable.
pub struct Hybrid<A, B> {
    first: A,
    second: B,
}

impl<A: Retriever, B: Retriever> Hybrid<A, B> {
    pub fn new(first: A, second: B) -> Self {
        Self { first, second }
    }
}

impl<A: Retriever, B: Retriever> Retriever for Hybrid<A, B> {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        /// Passages of each list that take part: what one list ranks low the other may rank high.
        const DEPTH: usize = 50;
        if topk == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let depth = DEPTH.max(topk);
        let (first, second) = (self.first.retrieve(queries, depth)?, self.second.retrieve(queries, depth)?);
        Ok(first.into_iter().zip(second).map(|(first, second)| fuse([first, second], topk)).collect())
    }
}

fn fuse(lists: [Vec<Passage>; 2], topk: usize) -> Vec<Passage> {
    const K: f32 = 60.0;
    let mut fused: Vec<Passage> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for list in lists {
        for (rank, passage) in (1..).zip(list) {
            let score = 1.0 / (K + rank as f32);
            // Ids need not be unique.
            let key = (passage.id.clone(), passage.contents.clone());
            match places.get(&key) {
                Some(place) => fused[*place].score += score,
                None => {
                    places.insert(key, fused.len());
                    fused.push(Passage { score, ..passage });
                }
            }
        }
    }
    // Stable: the first list wins between equal scores.
    fused.sort_by(|a, b| b.score.total_cmp(&a.score));
    fused.truncate(topk);
    fused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_fused() {
        let list = |ids: &[&str]| -> Vec<Passage> {
            ids.iter().map(|id| Passage { id: id.to_string(), contents: String::new(), score: 9.0 }).collect()
        };
        let check = |first: &[&str], second: &[&str], topk: usize, expected: &[(&str, f32)]| {
            let fused = fuse([list(first), list(second)], topk);
            let found: Vec<(&str, f32)> =
                fused.iter().map(|passage| (passage.id.as_str(), passage.score)).collect();
            assert_eq!(found, expected);
        };
        check(
            &["a", "b"],
            &["b", "c"],
            9,
            &[("b", 1.0 / 62.0 + 1.0 / 61.0), ("a", 1.0 / 61.0), ("c", 1.0 / 62.0)],
        );
        check(&["a"], &["b"], 1, &[("a", 1.0 / 61.0)]);
        check(&[], &["b"], 3, &[("b", 1.0 / 61.0)]);
        check(&[], &[], 3, &[]);
    }
}
