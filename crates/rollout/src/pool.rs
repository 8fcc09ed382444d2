//! The exploration prompts from which the probe policy draws.

use crate::codec::Codec;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The default pool: one prompt a line.
pub const DEFAULT_EXPLORATION: &str = include_str!("../assets/exploration.txt");

/// Exploration prompts as token ids, in the order of their lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplorationPool {
    prompts: Vec<Vec<u32>>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("the exploration pool is empty: it needs at least one prompt, one a line")]
    Empty,
    #[error("line {line} of the exploration pool has no tokens under this tokenizer: {prompt:?}")]
    NoTokens { line: usize, prompt: String },
}

impl ExplorationPool {
    /// The prompts of a text, one a line, white space around them removed and blank lines ignored.
    ///
    /// # Errors
    /// When no prompt is left, or one that the codec has no ids for.
    pub fn parse(text: &str, codec: &dyn Codec) -> Result<Self, PoolError> {
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, prompt)| !prompt.is_empty());
        let encode = |(line, prompt): (usize, &str)| match codec.encode(prompt) {
            ids if ids.is_empty() => Err(PoolError::NoTokens { line: line + 1, prompt: prompt.into() }),
            ids => Ok(ids),
        };
        let prompts: Vec<_> = lines.map(encode).collect::<Result<_, _>>()?;
        if prompts.is_empty() { Err(PoolError::Empty) } else { Ok(Self { prompts }) }
    }

    /// Every prompt's ids: what the probe policy's density is made of. Never empty.
    pub fn prompts(&self) -> &[Vec<u32>] {
        &self.prompts
    }

    /// One prompt, uniformly, the same for the same seed.
    pub fn draw(&self, seed: u64) -> &[u32] {
        &self.prompts[ChaCha8Rng::seed_from_u64(seed).random_range(0..self.prompts.len())]
    }
}
