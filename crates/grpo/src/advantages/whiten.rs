//! Whitening: shift and scale to mean 0 and standard deviation 1, over tokens.

/// verl's guard in both denominators.
const EPSILON: f64 = 1e-8;

/// `(x − mean)/sqrt(var + 1e-8)`, each value counted `weight` times, `var` unbiased (verl's `masked_whiten`).
///
/// With one value a token, weights are the mask; with one value a transcript, its number of tokens.
pub(crate) fn whiten(values: &[f64], weights: &[f64]) -> Vec<f64> {
    let count: f64 = weights.iter().sum();
    let weighted_mean = |of: &dyn Fn(f64) -> f64| {
        values.iter().zip(weights).map(|(&x, &w)| w * of(x)).sum::<f64>() / (count + EPSILON)
    };
    let mean = weighted_mean(&|x| x);
    let bessel = if count > 1.0 { count / (count - 1.0) } else { 1.0 };
    let variance = weighted_mean(&|x| (x - mean).powi(2)) * bessel;
    let scale = (variance + EPSILON).sqrt();
    values.iter().map(|&x| (x - mean) / scale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_weight_two_is_two_values() {
        let twice = whiten(&[3.0, 3.0, 1.0, 0.0], &[1.0; 4]);
        let weighted = whiten(&[3.0, 1.0, 0.0], &[2.0, 1.0, 1.0]);
        for (a, b) in weighted.iter().zip(&twice[1..]) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
        assert!((twice.iter().map(|x| x * x).sum::<f64>() / 3.0 - 1.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_to_compare_with_is_zero() {
        assert!(whiten(&[5.0], &[1.0])[0].abs() < 1e-3);
        assert!(whiten(&[], &[]).is_empty());
        assert!(whiten(&[5.0], &[0.0])[0].is_finite());
    }
}
