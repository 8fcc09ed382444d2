//! The official prefix index (`exploration_distribution.py`), said in terms of our trie.
//!
//! It differs from [`PromptTrie::log_density`] in two ways: the first token has probability 1, and prompts that end at
//! a prefix are left out of what follows it.

use rex_grpo::PromptTrie;
use std::collections::BTreeSet;

pub struct PrefixIndex {
    trie: PromptTrie,
    vocabulary: BTreeSet<u32>,
}

/// Python's `KeyError`: a prefix after which no prompt goes on, or a token of no prompt.
#[derive(Debug, PartialEq)]
pub struct KeyError;

impl PrefixIndex {
    pub fn new(prompts: &[Vec<u32>]) -> Self {
        Self { trie: PromptTrie::new(prompts), vocabulary: prompts.iter().flatten().copied().collect() }
    }

    /// (prompts that start with prefix and next) / (prompts that start with prefix and go on).
    pub fn next(&self, prefix: &[u32], next: u32) -> Result<f64, KeyError> {
        let going_on = self.trie.starting_with(prefix) - self.trie.equal_to(prefix);
        if prefix.is_empty() || going_on == 0 || !self.vocabulary.contains(&next) {
            return Err(KeyError);
        }
        Ok(self.trie.starting_with(&[prefix, &[next]].concat()) as f64 / going_on as f64)
    }

    /// The probability of each token of a prompt by the actor's rule.
    pub fn token_probs(&self, prompt: &[u32]) -> Result<Vec<f64>, KeyError> {
        let at = |t: usize| if t == 0 { Ok(1.0) } else { self.next(&prompt[..t], prompt[t]) };
        (0..prompt.len()).map(at).collect()
    }

    /// Prefixes after which some prompt goes on.
    pub fn prefixes(prompts: &[Vec<u32>]) -> usize {
        let prefixes = prompts.iter().flat_map(|prompt| (1..prompt.len()).map(|end| &prompt[..end]));
        prefixes.collect::<BTreeSet<_>>().len()
    }

    pub fn vocabulary(&self) -> usize {
        self.vocabulary.len()
    }
}
