//! The density `μ` of the probe policy, which makes `prefix · exploration prompt · continuation`.
//!
//! The prefix belongs to a transcript that was probed because it failed: its density is `π_old(prefix)/z`, `z` the
//! failure rate of the step's originals. (Exact if the prefix alone decides the failure; otherwise the chance that
//! it fails given the prefix is left out, as in the paper.) The prompt comes from a pool, see [`crate::trie`]. The
//! continuation is the policy's own.

use std::ops::Range;

/// Where the exploration prompt of a probe lies in its row, and what its density is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// The positions of the exploration prompt; the prefix lies before, the continuation behind.
    pub prompt: Range<usize>,
    /// `log μ` of each prompt token, [`PromptTrie::log_density`](crate::PromptTrie::log_density).
    pub prompt_log_density: Vec<f64>,
    /// `j`: the number of prefix tokens over which `1/z` is spread. [`Probe::new`] counts the trainable ones.
    pub prefix_tokens: usize,
    /// `log z`, [`log_failure_rate`].
    pub log_failure_rate: f64,
}

impl Probe {
    /// A probe whose `1/z` is spread over the prefix tokens that are in the loss, so that their product is
    /// exactly `1/z`. (The official code counts all response tokens before the prompt.)
    ///
    /// # Panics
    /// If the prompt does not lie in the row or has another length than its density.
    pub fn new(
        prompt: Range<usize>,
        prompt_log_density: Vec<f64>,
        loss_mask: &[bool],
        log_failure_rate: f64,
    ) -> Self {
        assert_eq!(prompt.len(), prompt_log_density.len(), "one density per prompt token");
        let prefix_tokens = loss_mask[..prompt.start].iter().filter(|&&trainable| trainable).count();
        Self { prompt, prompt_log_density, prefix_tokens, log_failure_rate }
    }

    /// `log μ` of every token of the row: `log π_old − (log z)/j` before the prompt, the prompt's density,
    /// `log π_old` behind it.
    ///
    /// `log_old`: `log π_old` of every token of the row. Values at tokens outside the loss mean nothing.
    pub fn log_mu(&self, log_old: &[f64]) -> Vec<f64> {
        let mut log_mu = log_old.to_vec();
        for value in &mut log_mu[..self.prompt.start] {
            *value -= self.log_failure_rate / self.prefix_tokens.max(1) as f64;
        }
        log_mu[self.prompt.clone()].copy_from_slice(&self.prompt_log_density);
        log_mu
    }

    /// `log [μ(o)/π_old(o)]` of the whole transcript, `−log z + Σ_prompt (log μ_t − log π_old,t)`.
    pub fn log_mu_over_old(&self, log_old: &[f64]) -> f64 {
        let of_prompt = self.prompt_log_density.iter().zip(&log_old[self.prompt.clone()]);
        of_prompt.map(|(log_mu, log_old)| log_mu - log_old).sum::<f64>() - self.log_failure_rate
    }
}

/// `log z`, the logarithm of the share of the step's originals that failed.
///
/// Where nothing failed nothing is probed, and `z` has no bearing; 0 is returned so that no infinity arises.
pub fn log_failure_rate(failed: usize, originals: usize) -> f64 {
    if failed == 0 { 0.0 } else { (failed as f64 / originals as f64).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG_OLD: [f64; 8] = [-0.5, -1.0, -0.25, -2.0, -9.0, -7.0, -0.5, -0.125];

    /// A row whose token 2 was retrieved, with the prompt at 4 and 5.
    fn probe(log_failure_rate: f64) -> Probe {
        let loss_mask = [true, true, false, true, true, true, true, true];
        Probe::new(4..6, vec![0.5_f64.ln(), 0.25_f64.ln()], &loss_mask, log_failure_rate)
    }

    #[test]
    fn the_trainable_prefix_gains_exactly_one_over_z() {
        let z: f64 = 0.4;
        let log_mu = probe(z.ln()).log_mu(&LOG_OLD);
        let gain: f64 = [0, 1, 3].iter().map(|&t: &usize| log_mu[t] - LOG_OLD[t]).sum();
        assert!((gain.exp() - 1.0 / z).abs() < 1e-12);
        assert_eq!(log_mu[4..6], [0.5_f64.ln(), 0.25_f64.ln()]);
        assert_eq!(log_mu[6..], LOG_OLD[6..]);
    }

    #[test]
    fn the_official_prefix_length_counts_retrieved_tokens_and_falls_short() {
        let z: f64 = 0.4;
        let official = Probe { prefix_tokens: 4, ..probe(z.ln()) };
        let log_mu = official.log_mu(&LOG_OLD);
        let gain: f64 = [0, 1, 3].iter().map(|&t: &usize| log_mu[t] - LOG_OLD[t]).sum();
        assert!((gain.exp() - z.powf(-0.75)).abs() < 1e-12);
    }

    #[test]
    fn the_whole_is_the_product_of_the_trainable_tokens() {
        let probe = probe(0.4_f64.ln());
        let log_mu = probe.log_mu(&LOG_OLD);
        let sum: f64 = [0, 1, 3, 4, 5, 6, 7].iter().map(|&t: &usize| log_mu[t] - LOG_OLD[t]).sum();
        assert!((probe.log_mu_over_old(&LOG_OLD) - sum).abs() < 1e-12);
    }

    #[test]
    fn no_prefix_and_no_failure_are_harmless() {
        let start = Probe::new(0..1, vec![-1.0], &[true, true], 0.5_f64.ln());
        assert_eq!(start.log_mu(&[-3.0, -2.0]), [-1.0, -2.0]);
        assert_eq!(log_failure_rate(0, 5), 0.0);
        assert_eq!(log_failure_rate(0, 0), 0.0);
        assert_eq!(log_failure_rate(1, 4), 0.25_f64.ln());
    }
}
