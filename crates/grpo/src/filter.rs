//! The trajectory filter (REX-RAG, section 3.3): of a step's probes, the ones whose prompt the policy finds likeliest.

use serde::{Deserialize, Serialize};

/// Which probes of a step are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeFilter {
    /// The `K` with the highest [`mean_log_prob`] over their exploration prompt.
    #[default]
    Likeliest,
    /// All of them (the ablation).
    None,
}

impl ProbeFilter {
    /// The kept probes as indices into `scores`, likeliest first.
    ///
    /// `K = floor(originals·κ)`, no more than `max_fraction` of all kept transcripts, and at least one while there
    /// are probes. (In the official code a `κ` that once reaches 0 keeps no probe, learns of no success, and stays.)
    pub fn keep(self, scores: &[f64], originals: usize, keep_ratio: f64, max_fraction: f64) -> Vec<usize> {
        match self {
            Self::Likeliest => {
                let wanted = keep_count(originals, keep_ratio).min(most_probes(originals, max_fraction));
                likeliest(scores, wanted.max(1))
            }
            Self::None => (0..scores.len()).collect(),
        }
    }
}

/// The score of a probe from `log π_old` of its exploration prompt's tokens. A probe without prompt ranks last.
pub fn mean_log_prob(prompt_log_old: &[f64]) -> f64 {
    match prompt_log_old.len() {
        0 => f64::NEG_INFINITY,
        tokens => prompt_log_old.iter().sum::<f64>() / tokens as f64,
    }
}

/// The indices of the `count` highest scores, highest first; of equal ones the earlier.
pub fn likeliest(scores: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
    order.truncate(count);
    order
}

/// `floor(originals·κ)`.
pub fn keep_count(originals: usize, keep_ratio: f64) -> usize {
    (originals as f64 * keep_ratio) as usize
}

/// The largest `k` with `k/(originals + k) <= max_fraction`.
fn most_probes(originals: usize, max_fraction: f64) -> usize {
    if max_fraction >= 1.0 {
        return usize::MAX;
    }
    // 0.15 · 17 / 0.85 is 3 but for rounding.
    (originals as f64 * max_fraction / (1.0 - max_fraction) + 1e-9) as usize
}

/// `κ`, how many probes to keep per original: an exponential moving average of the probes' accuracy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeepRatio(f64);

impl KeepRatio {
    const WEIGHT: f64 = 0.1;

    pub fn new(start: f64) -> Self {
        Self(start)
    }

    pub fn value(self) -> f64 {
        self.0
    }

    /// Takes in the accuracy of a step's probes. A step without probes has none and should leave `κ` alone.
    pub fn update(&mut self, accuracy: f64) {
        self.0 = (1.0 - Self::WEIGHT) * self.0 + Self::WEIGHT * accuracy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scores: &[f64], originals: usize, keep_ratio: f64, max_fraction: f64, expected: &[usize]) {
        let kept = ProbeFilter::Likeliest.keep(scores, originals, keep_ratio, max_fraction);
        assert_eq!(kept, expected, "{scores:?}, {originals}, {keep_ratio}, {max_fraction}");
    }

    #[test]
    fn by_hand() {
        check(&[-3.0, -1.0, -2.0], 10, 0.2, 1.0, &[1, 2]);
        check(&[-1.0, -1.0, -0.5], 10, 0.2, 1.0, &[2, 0]);
        check(&[-1.0, f64::NEG_INFINITY], 10, 1.0, 1.0, &[0, 1]);
        // α at most 3/(17 + 3) = 0.15.
        check(&[-1.0, -2.0, -3.0, -4.0], 17, 1.0, 0.15, &[0, 1, 2]);
        check(&[-1.0, -2.0, -3.0, -4.0], 16, 1.0, 0.15, &[0, 1]);
        check(&[], 10, 0.5, 0.15, &[]);
        assert_eq!(ProbeFilter::None.keep(&[-3.0, -1.0], 10, 0.0, 0.0), [0, 1]);
    }

    #[test]
    fn a_keep_ratio_of_zero_does_not_absorb() {
        let mut ratio = KeepRatio::new(0.0);
        check(&[-3.0, -1.0], 10, ratio.value(), 0.15, &[1]);
        check(&[-3.0, -1.0], 2, ratio.value(), 0.15, &[1]);
        ratio.update(1.0);
        assert_eq!(ratio.value(), 0.1);
    }

    #[test]
    fn a_probe_without_prompt_ranks_last() {
        assert_eq!(mean_log_prob(&[]), f64::NEG_INFINITY);
        assert_eq!(mean_log_prob(&[-1.0, -2.0]), -1.5);
    }
}
