//! The soft over-long penalty of DAPO (arXiv 2503.14476, section 3.4): a reward that runs out before the budget does.

use serde::{Deserialize, Serialize};

/// Nothing up to `max_tokens − buffer`, then linear down to `−factor` at `max_tokens`, and `−factor` beyond.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overlong {
    pub max_tokens: usize,
    pub buffer: usize,
    pub factor: f64,
}

impl Overlong {
    /// What to add to the reward of a response of `tokens` tokens: 0 or negative.
    pub fn penalty(&self, tokens: usize) -> f64 {
        let excess = (tokens + self.buffer) as f64 - self.max_tokens as f64;
        // A buffer of 0 is a step: the full penalty from the first token over the budget.
        let fraction = if excess <= 0.0 { 0.0 } else { excess / self.buffer as f64 };
        -self.factor * fraction.min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_in_the_buffer() {
        let soft = Overlong { max_tokens: 100, buffer: 20, factor: 1.0 };
        let hard = Overlong { buffer: 0, ..soft };
        for (rule, tokens, expected) in [
            (soft, 0, 0.0),
            (soft, 80, 0.0),
            (soft, 85, -0.25),
            (soft, 100, -1.0),
            (soft, 500, -1.0),
            (hard, 100, 0.0),
            (hard, 101, -1.0),
            (Overlong { factor: 0.5, ..soft }, 90, -0.25),
        ] {
            assert_eq!(rule.penalty(tokens), expected, "{rule:?} at {tokens}");
        }
    }
}
