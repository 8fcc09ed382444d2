//! A value over generated tokens.

use serde::Serialize;

/// Linear between its points.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// # Panics
    /// If the points do not go from left to right.
    pub fn new(points: Vec<(f64, f64)>) -> Self {
        assert!(points.is_sorted_by(|a, b| a.0 <= b.0), "points go from left to right: {points:?}");
        Self(points)
    }

    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// Where it ends; 0 without points.
    pub fn end(&self) -> f64 {
        self.0.last().map_or(0.0, |point| point.0)
    }

    /// The value at `tokens`, constant beyond either end.
    ///
    /// # Panics
    /// Without points.
    pub fn at(&self, tokens: f64) -> f64 {
        let after = self.0.partition_point(|point| point.0 < tokens);
        let (Some(&right), Some(&left)) = (self.0.get(after), self.0.get(after.saturating_sub(1))) else {
            return self.0.last().expect("a curve has points").1;
        };
        if after == 0 {
            return right.1;
        }
        let share = (tokens - left.0) / (right.0 - left.0);
        left.1 + share * (right.1 - left.1)
    }

    /// The mean value over `0..=end` (the area under the curve, divided by its width).
    pub fn mean_to(&self, end: f64) -> f64 {
        if end <= 0.0 {
            return self.at(0.0);
        }
        let inner = self.0.iter().map(|point| point.0).filter(|&tokens| 0.0 < tokens && tokens < end);
        let stops: Vec<f64> = std::iter::once(0.0).chain(inner).chain([end]).collect();
        let trapezoid = |pair: &[f64]| (pair[1] - pair[0]) * (self.at(pair[0]) + self.at(pair[1])) / 2.0;
        stops.windows(2).map(trapezoid).sum::<f64>() / end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve() -> Curve {
        Curve::new(vec![(0.0, 0.2), (100.0, 0.4), (300.0, 0.8)])
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-12, "{a} and {b}");
    }

    #[test]
    fn between_points_and_beyond_them() {
        for (tokens, expected) in
            [(0.0, 0.2), (50.0, 0.3), (100.0, 0.4), (150.0, 0.5), (300.0, 0.8), (400.0, 0.8), (-1.0, 0.2)]
        {
            close(curve().at(tokens), expected);
        }
        close(Curve::new(vec![(5.0, 0.7)]).at(1.0), 0.7);
        // Two evaluations at one place: the last one counts from there on.
        let twice = Curve::new(vec![(0.0, 0.0), (10.0, 0.5), (10.0, 1.0), (20.0, 1.0)]);
        close(twice.at(10.0), 0.5);
        close(twice.at(15.0), 1.0);
    }

    #[test]
    fn areas_by_hand() {
        // 100 · 0.3 = 30, then 100 · 0.5 = 50 up to 200 and 200 · 0.6 = 120 up to 300.
        close(curve().mean_to(200.0), 80.0 / 200.0);
        close(curve().mean_to(300.0), 150.0 / 300.0);
        close(curve().mean_to(0.0), 0.2);
        close(Curve::new(vec![(0.0, 0.6), (7.0, 0.6)]).mean_to(5.0), 0.6);
    }

    #[test]
    fn a_point_on_the_line_changes_nothing() {
        let more = Curve::new(vec![(0.0, 0.2), (100.0, 0.4), (200.0, 0.6), (300.0, 0.8)]);
        for tokens in (0..=30).map(|i| 10.0 * i as f64) {
            close(more.at(tokens), curve().at(tokens));
            close(more.mean_to(tokens), curve().mean_to(tokens));
        }
    }
}
