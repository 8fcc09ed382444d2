//! The mean over seeds, with a percentile bootstrap interval (Efron 1979).
//!
//! With few seeds such an interval is too narrow (with five it covers nearer 85 % than 95 %): it tells an effect from the
//! scatter of these seeds, no more.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    pub mean: f64,
    /// 95 %, from resampled seeds; absent for a single seed.
    pub interval: Option<(f64, f64)>,
}

const RESAMPLES: usize = 10_000;
/// The intervals are part of a result, so that the same runs give the same ones.
const SEED: u64 = 0;

impl Estimate {
    /// # Panics
    /// Without values.
    pub fn of(values: &[f64]) -> Self {
        assert!(!values.is_empty(), "an estimate needs a value");
        let mean = mean(values.iter().copied(), values.len());
        let interval = (values.len() > 1).then(|| {
            let mut random = ChaCha8Rng::seed_from_u64(SEED);
            let mut resample = || {
                let drawn = (0..values.len()).map(|_| values[random.random_range(0..values.len())]);
                self::mean(drawn, values.len())
            };
            let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
            means.sort_by(f64::total_cmp);
            (quantile(&means, 0.025), quantile(&means, 0.975))
        });
        Self { mean, interval }
    }

    /// Whether zero lies outside the interval.
    pub fn excludes_zero(&self) -> bool {
        self.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0)
    }
}

fn mean(values: impl Iterator<Item = f64>, count: usize) -> f64 {
    values.sum::<f64>() / count as f64
}

/// Linear between the order statistics.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + place.fract() * (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_by_hand() {
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0];
        for (share, expected) in [(0.0, 1.0), (0.25, 2.0), (0.375, 3.0), (0.9, 12.8), (1.0, 16.0)] {
            assert!((quantile(&sorted, share) - expected).abs() < 1e-12, "{share}");
        }
    }

    #[test]
    fn two_values_are_drawn_alone_one_time_in_four() {
        // Of the means 0, ½, 1 the outer ones come up in a quarter of the resamples each: beyond 2.5 %.
        let estimate = Estimate::of(&[0.0, 1.0]);
        assert_eq!(estimate, Estimate { mean: 0.5, interval: Some((0.0, 1.0)) });
        assert!(!estimate.excludes_zero());
        // Of five values one alone comes up in one of 3,125 resamples, so the interval lies inside the range.
        let (low, high) = Estimate::of(&[0.0, 0.0, 0.0, 0.0, 1.0]).interval.unwrap();
        // P(at most 2 of 5 draws are the one) = 0.942, P(at most 3) = 0.9933.
        assert_eq!((low, high), (0.0, 0.6));
    }

    #[test]
    fn properties() {
        let values = [0.31, 0.44, 0.38, 0.52, 0.47];
        let estimate = Estimate::of(&values);
        let (low, high) = estimate.interval.unwrap();
        assert!(low < estimate.mean && estimate.mean < high);
        assert!(0.31 <= low && high <= 0.52);
        assert_eq!(estimate, Estimate::of(&values), "seeded");
        // The interval moves with the values and grows with their spread.
        let moved: Vec<f64> = values.iter().map(|value| 2.0 * value + 1.0).collect();
        let (moved_low, moved_high) = Estimate::of(&moved).interval.unwrap();
        assert!((moved_low - (2.0 * low + 1.0)).abs() < 1e-12);
        assert!((moved_high - (2.0 * high + 1.0)).abs() < 1e-12);
        assert_eq!(Estimate::of(&[0.4]).interval, None);
        assert!(Estimate::of(&[0.1, 0.2, 0.1]).excludes_zero());
        assert!(Estimate::of(&[-0.1, -0.2]).excludes_zero());
        assert!(!Estimate::of(&[0.0, 0.0]).excludes_zero());
        assert!(!Estimate::of(&[0.4]).excludes_zero());
    }
}
