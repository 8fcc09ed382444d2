//! Scales, round ticks, and numbers in few digits.

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero, for shares and counts.
    Zero,
    /// From the smallest value.
    Free,
    /// By orders of magnitude; what is not positive is not shown.
    Log,
}

/// The values between two round numbers, at `step` from each other; decimal logarithms on a [`Scale::Log`].
pub(crate) struct Axis {
    log: bool,
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    pub(crate) fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let log = scale == Scale::Log;
        let of = |value: f64| if log { value.log10() } else { value };
        let (mut low, mut high) = values
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (value.min(low), value.max(high)));
        if scale == Scale::Zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= 1e-12 * high.abs().max(1e-100) {
            let pad = if log || high.abs() < 1e-100 { 0.5 } else { 0.5 * high.abs() };
            (low, high) = if scale == Scale::Zero { (low, low + 1.0) } else { (low - pad, high + pad) };
        }
        let step = if log { ((high - low) / 5.0).ceil().max(1.0) } else { round_step((high - low) / 4.0) };
        Self { log, low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    /// From 0 at the bottom to 1 at the top.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    pub(crate) fn ticks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.high - self.low) / self.step).round() as usize;
        (0..=count).map(|i| {
            let value = self.low + i as f64 * self.step;
            if self.log { 10f64.powf(value) } else { (value / self.step).round() * self.step }
        })
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `wanted`.
fn round_step(wanted: f64) -> f64 {
    let power = 10f64.powf(wanted.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|step| *step >= wanted * (1.0 - 1e-9))
        .unwrap_or(power)
}

/// Round steps between two.
pub(crate) fn step_ticks(first: usize, last: usize) -> impl Iterator<Item = usize> {
    let step = round_step((last - first) as f64 / 5.0).max(1.0) as usize;
    (first.div_ceil(step)..=last / step).map(move |i| i * step)
}

/// A number in at most four digits, or with an exponent.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_string();
    }
    if !value.is_finite() {
        return value.to_string();
    }
    if !(1e-3..1e5).contains(&size) {
        let text = format!("{value:.1e}");
        return text.replace(".0e", "e");
    }
    let decimals = (3 - size.log10().floor() as i32).clamp(0, 4) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_has_an_axis() {
        for scale in [Scale::Zero, Scale::Free, Scale::Log] {
            for values in [[1e99, 1e-300], [5e-324, 5e-324], [1.0, 1.0 + 1e-15], [1e99, 1e99]] {
                let axis = Axis::around(scale, values.into_iter());
                assert!(values.iter().all(|&value| (0.0..=1.0).contains(&axis.place(value))), "{values:?}");
                assert!((2..=12).contains(&axis.ticks().count()), "{values:?}");
            }
        }
    }

    #[test]
    fn steps_are_round() {
        assert_eq!(step_ticks(1, 60).collect::<Vec<_>>(), [20, 40, 60]);
        assert_eq!(step_ticks(0, 1).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (-0.12345, "-0.1235"),
            (2.06e-9, "2.1e-9"),
            (1e-6, "1e-6"),
            (1234.6, "1235"),
            (64.7142, "64.71"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(short(value), expected);
        }
    }
}
