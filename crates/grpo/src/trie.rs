//! The prompt trie: with which probability the pool's next token is which.
//!
//! An exploration prompt is drawn uniformly from a pool (REX-RAG, section 3.3), so a token's probability given the
//! ones before it is a matter of counting prompts. The pool's own token ids are counted, never the text.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How the density of an exploration prompt is spread over its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeDensity {
    /// Each token has the probability it has in the trie.
    #[default]
    Fine,
    /// The first token has `1/|pool|`, the others 1 (the paper's ablation).
    Coarse,
}

/// These token ids begin no prompt of the pool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "token ids {ids:?} begin no prompt of the pool: build the trie from the prompts as the rollout encoded them"
)]
pub struct UnknownPrompt {
    pub ids: Vec<u32>,
}

/// Counts over the prompts of a pool. A prompt that occurs twice counts twice.
#[derive(Clone, Debug)]
pub struct PromptTrie {
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    children: BTreeMap<u32, usize>,
    /// Prompts that pass through this node or end in it.
    through: usize,
    /// Prompts that end in it.
    ends: usize,
}

impl PromptTrie {
    pub fn new<P: AsRef<[u32]>>(prompts: impl IntoIterator<Item = P>) -> Self {
        let mut trie = Self { nodes: vec![Node::default()] };
        for prompt in prompts {
            trie.insert(prompt.as_ref());
        }
        trie
    }

    /// `log μ` of each token of an exploration prompt, `log [ #(e_1..e_t) / #(e_1..e_{t−1}) ]` where `#` counts the
    /// prompts that start so.
    ///
    /// The last token of a prompt that also begins longer ones carries the probability of ending there, so the
    /// product over the tokens is exactly the probability with which the pool draws this prompt. A prompt that was
    /// cut short has the probability of all prompts that begin so.
    ///
    /// # Errors
    /// [`UnknownPrompt`] if no prompt begins with `ids`.
    pub fn log_density(&self, ids: &[u32], density: ProbeDensity) -> Result<Vec<f64>, UnknownPrompt> {
        let mut densities = Vec::with_capacity(ids.len());
        let mut at = &self.nodes[0];
        for token in ids {
            let next = at.children.get(token).map(|&node| &self.nodes[node]);
            let next = next.ok_or_else(|| UnknownPrompt { ids: ids.to_vec() })?;
            densities.push(log_fraction(next.through, at.through));
            at = next;
        }
        if let Some(last) = densities.last_mut()
            && at.ends > 0
        {
            *last += log_fraction(at.ends, at.through);
        }
        if density == ProbeDensity::Coarse {
            densities.fill(0.0);
            densities.iter_mut().take(1).for_each(|first| *first = log_fraction(1, self.len()));
        }
        Ok(densities)
    }

    /// Prompts in the pool.
    pub fn len(&self) -> usize {
        self.nodes[0].through
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many prompts start with `ids`, those that end there included.
    pub fn starting_with(&self, ids: &[u32]) -> usize {
        self.find(ids).map_or(0, |node| node.through)
    }

    /// How many prompts are exactly `ids`.
    pub fn equal_to(&self, ids: &[u32]) -> usize {
        self.find(ids).map_or(0, |node| node.ends)
    }

    fn find(&self, ids: &[u32]) -> Option<&Node> {
        ids.iter().try_fold(&self.nodes[0], |at, token| at.children.get(token).map(|&node| &self.nodes[node]))
    }

    fn insert(&mut self, prompt: &[u32]) {
        let mut at = 0;
        self.nodes[at].through += 1;
        for &token in prompt {
            let fresh = self.nodes.len();
            let next = *self.nodes[at].children.entry(token).or_insert(fresh);
            if next == fresh {
                self.nodes.push(Node::default());
            }
            at = next;
            self.nodes[at].through += 1;
        }
        self.nodes[at].ends += 1;
    }
}

fn log_fraction(part: usize, whole: usize) -> f64 {
    (part as f64 / whole as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pool: &[&[u32]], prompt: &[u32], expected: &[f64]) {
        let found = PromptTrie::new(pool).log_density(prompt, ProbeDensity::Fine).unwrap();
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(expected) {
            assert!((a.exp() - b).abs() < 1e-12, "{prompt:?} of {pool:?}: {found:?}, expected {expected:?}");
        }
    }

    #[test]
    fn by_hand() {
        check(&[&[1, 2]], &[1, 2], &[1.0, 1.0]);
        check(&[&[1, 2], &[1, 3], &[4]], &[1, 3], &[2.0 / 3.0, 0.5]);
        check(&[&[1, 2], &[1, 3], &[4]], &[4], &[1.0 / 3.0]);
        // [1] begins [1, 2] and [1, 3], and ends there once in three times.
        check(&[&[1], &[1, 2], &[1, 3]], &[1], &[1.0 / 3.0]);
        check(&[&[1], &[1, 2], &[1, 3]], &[1, 2], &[1.0, 1.0 / 3.0]);
        check(&[&[1, 2], &[1, 2], &[1, 3]], &[1, 2], &[1.0, 2.0 / 3.0]);
        // Cut short: all that begins so.
        check(&[&[1, 2, 3], &[1, 2, 4], &[5]], &[1, 2], &[2.0 / 3.0, 1.0]);
        check(&[&[1]], &[], &[]);
    }

    #[test]
    fn the_distinct_prompts_of_a_pool_have_probabilities_that_sum_to_one() {
        for density in [ProbeDensity::Fine, ProbeDensity::Coarse] {
            let pool: [&[u32]; 6] = [&[1], &[1, 2], &[1, 2, 3], &[4, 2], &[4, 5, 6], &[7]];
            let trie = PromptTrie::new(pool);
            let probability = |p: &[u32]| trie.log_density(p, density).unwrap().iter().sum::<f64>().exp();
            let total: f64 = pool.iter().map(|prompt| probability(prompt)).sum();
            assert!((total - 1.0).abs() < 1e-12, "{density:?}: {total}");
        }
    }

    #[test]
    fn coarse_puts_everything_on_the_first_token() {
        let trie = PromptTrie::new([[1, 2], [1, 3]]);
        assert_eq!(trie.log_density(&[1, 3], ProbeDensity::Coarse), Ok(vec![0.5_f64.ln(), 0.0]));
        assert!(trie.log_density(&[3], ProbeDensity::Coarse).is_err());
    }

    #[test]
    fn an_unknown_prompt_is_an_error() {
        let trie = PromptTrie::new([[1, 2], [1, 3]]);
        let empty = PromptTrie::new(Vec::<Vec<u32>>::new());
        for (trie, ids) in [(&trie, vec![2]), (&trie, vec![1, 4]), (&trie, vec![1, 2, 3]), (&empty, vec![1])]
        {
            assert_eq!(trie.log_density(&ids, ProbeDensity::Fine), Err(UnknownPrompt { ids }));
        }
        assert!(empty.is_empty());
    }
}
