//! What a run should log to see whether the correction works: `α`, effective sample size, ratios per author.

use serde::Serialize;
use std::collections::BTreeMap;

/// `α`, the share of probes among the kept transcripts of a step.
pub fn alpha(probes: usize, transcripts: usize) -> f64 {
    ratio(probes as f64, transcripts as f64)
}

/// `(Σw)²/Σw²`: of how many equally weighted samples these are worth (Kish). 0 without weights.
pub fn effective_sample_size(weights: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, squares) = weights.into_iter().fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    ratio(sum * sum, squares)
}

/// A token of the loss: who wrote it, `log(π_θ/π_mix)`, and whether the clip decided its loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenRatio<Author> {
    pub author: Author,
    pub log_ratio: f64,
    pub clipped: bool,
}

/// The ratios of a set of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatioSummary {
    pub tokens: usize,
    pub clip_fraction: f64,
    /// The mean of `log π_mix − log π_θ` (verl's `ppo_kl`).
    pub ppo_kl: f64,
    /// Percentiles of `π_θ/π_mix`.
    pub p1: f64,
    pub p5: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

impl RatioSummary {
    /// All zeros without tokens.
    pub fn of<Author>(tokens: &[TokenRatio<Author>]) -> Self {
        let count = tokens.len() as f64;
        let clipped = tokens.iter().filter(|token| token.clipped).count();
        let mut ordered: Vec<f64> = tokens.iter().map(|token| token.log_ratio).collect();
        ordered.sort_by(f64::total_cmp);
        let percentile = |share: f64| percentile(&ordered, share).map_or(0.0, f64::exp);
        Self {
            tokens: tokens.len(),
            clip_fraction: ratio(clipped as f64, count),
            ppo_kl: ratio(-tokens.iter().map(|token| token.log_ratio).sum::<f64>(), count),
            p1: percentile(0.01),
            p5: percentile(0.05),
            p50: percentile(0.5),
            p95: percentile(0.95),
            p99: percentile(0.99),
        }
    }

    /// One summary per author that wrote anything.
    pub fn by_author<Author: Ord + Copy>(tokens: &[TokenRatio<Author>]) -> BTreeMap<Author, Self> {
        let mut of_author = BTreeMap::<Author, Vec<TokenRatio<Author>>>::new();
        for token in tokens {
            of_author.entry(token.author).or_default().push(*token);
        }
        of_author.into_iter().map(|(author, tokens)| (author, Self::of(&tokens))).collect()
    }
}

/// Nearest rank: the smallest value that at least `share` of all do not exceed.
fn percentile(ordered: &[f64], share: f64) -> Option<f64> {
    let rank = (share * ordered.len() as f64).ceil() as usize;
    ordered.get(rank.saturating_sub(1)).copied()
}

/// A share of nothing is 0.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole == 0.0 { 0.0 } else { part / whole }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(author: u8, ratio: f64, clipped: bool) -> TokenRatio<u8> {
        TokenRatio { author, log_ratio: ratio.ln(), clipped }
    }

    #[test]
    fn per_author() {
        let tokens = [token(1, 2.0, true), token(5, 0.5, false), token(1, 1.0, false), token(1, 4.0, false)];
        let summary = RatioSummary::by_author(&tokens);
        assert_eq!(summary.keys().collect::<Vec<_>>(), [&1, &5]);
        assert_eq!(summary[&1].tokens, 3);
        assert!((summary[&1].clip_fraction - 1.0 / 3.0).abs() < 1e-12);
        assert!((summary[&1].ppo_kl + 2.0_f64.ln()).abs() < 1e-12);
        for (found, expected) in [(summary[&1].p1, 1.0), (summary[&1].p50, 2.0), (summary[&1].p99, 4.0)] {
            assert!((found - expected).abs() < 1e-12);
        }
        assert_eq!(summary[&5].clip_fraction, 0.0);
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let ordered: Vec<f64> = (1..=100).map(f64::from).collect();
        for (share, expected) in
            [(0.01, 1.0), (0.05, 5.0), (0.5, 50.0), (0.95, 95.0), (0.99, 99.0), (1.0, 100.0)]
        {
            assert_eq!(percentile(&ordered, share), Some(expected));
        }
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn shares_of_nothing_are_zero() {
        assert_eq!(alpha(0, 0), 0.0);
        assert_eq!(alpha(3, 20), 0.15);
        assert_eq!(effective_sample_size([]), 0.0);
        assert_eq!(effective_sample_size([2.0, 2.0, 2.0]), 3.0);
        assert_eq!(effective_sample_size([1.0, 0.0, 0.0]), 1.0);
        assert_eq!(RatioSummary::of::<u8>(&[]).p50, 0.0);
    }
}
