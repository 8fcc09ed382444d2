//! The scores of one transcript.

use super::{FormatScore, answer, exact_match, f1, folded_exact_match, sub_exact_match};
use crate::transcript::Segment;
use serde::{Deserialize, Serialize};

/// What a transcript's answer is worth against its gold answers. Without an answer every match is 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    pub answer: Option<String>,
    /// Exact match, 0 or 1: what training rewards.
    pub em: f64,
    /// A gold answer lies inside the answer, 0 or 1.
    pub sub_em: f64,
    pub f1: f64,
    /// Exact match up to accents, typography and case folding, 0 or 1.
    pub folded_em: f64,
    pub format: f64,
}

impl Scores {
    pub fn new(segments: &[Segment], golds: &[impl AsRef<str>]) -> Self {
        let answer = answer(segments);
        let given = answer.as_deref();
        let matches =
            |test: fn(&str, &[_]) -> bool| f64::from(given.is_some_and(|answer| test(answer, golds)));
        Self {
            em: matches(exact_match),
            sub_em: matches(sub_exact_match),
            f1: given.map_or(0.0, |answer| f1(answer, golds)),
            folded_em: matches(folded_exact_match),
            format: FormatScore::of_segments(segments).total,
            answer,
        }
    }

    /// `EM + format_weight · format`, and 0 without an answer.
    pub fn reward(&self, format_weight: f64) -> f64 {
        if self.answer.is_some() { self.em + format_weight * self.format } else { 0.0 }
    }

    pub fn is_correct(&self) -> bool {
        self.em == 1.0
    }
}
