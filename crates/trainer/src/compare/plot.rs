//! Exact match over generated tokens as line charts: the geometry of an SVG, which the page's template draws.

use super::bootstrap::Estimate;
use super::comparison::{ArmResult, Comparison};
use crate::axis::{Axis, Scale};
use crate::history::ALL;
use serde::Serialize;

/// One chart, in its own units.
#[derive(Debug, Serialize)]
pub struct Plot {
    pub title: String,
    pub width: f64,
    pub height: f64,
    pub frame: Frame,
    pub x_ticks: Vec<Tick>,
    pub y_ticks: Vec<Tick>,
    pub lines: Vec<Line>,
}

/// The area of the data.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Frame {
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

#[derive(Debug, Serialize)]
pub struct Tick {
    pub at: f64,
    pub label: String,
}

/// An arm's mean over seeds.
#[derive(Debug, Serialize)]
pub struct Line {
    pub arm: String,
    /// SVG points of the mean, and of the outline of its interval.
    pub mean: String,
    pub band: Option<String>,
}

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 280.0;
const FRAME: Frame = Frame { left: 36.0, right: 402.0, top: 10.0, bottom: 240.0 };
/// Pieces of a line.
const PIECES: usize = 60;

/// One chart a source, all questions first.
pub fn plots(comparison: &Comparison) -> Vec<Plot> {
    comparison.sources.iter().map(|source| plot(comparison, source)).collect()
}

fn plot(comparison: &Comparison, source: &str) -> Plot {
    let tokens: Vec<f64> =
        (0..=PIECES).map(|piece| comparison.tokens * piece as f64 / PIECES as f64).collect();
    let of = |arm: &ArmResult| -> Vec<Estimate> {
        let at = |&tokens: &f64| {
            let percent = arm.runs.iter().map(|run| 100.0 * run.curves[source].at(tokens));
            Estimate::of(&percent.collect::<Vec<_>>())
        };
        tokens.iter().map(at).collect()
    };
    let means: Vec<Vec<Estimate>> = comparison.arms.iter().map(of).collect();
    let extent = |estimate: &Estimate| estimate.interval.unwrap_or((estimate.mean, estimate.mean));
    let all = || means.iter().flatten().map(extent);
    let x = Axis::around(Scale::Zero, [comparison.tokens].into_iter());
    let y = Axis::around(Scale::Free, all().flat_map(|(low, high)| [low, high]));
    let across = |tokens: f64| FRAME.left + x.place(tokens) * (FRAME.right - FRAME.left);
    let up = |percent: f64| FRAME.bottom - y.place(percent) * (FRAME.bottom - FRAME.top);
    let points = |values: Vec<f64>, order: &[f64]| -> String {
        let point = |(tokens, value): (&f64, f64)| format!("{:.1},{:.1}", across(*tokens), up(value));
        order.iter().zip(values).map(point).collect::<Vec<_>>().join(" ")
    };
    let backwards: Vec<f64> = tokens.iter().rev().copied().collect();
    let line = |(arm, means): (&ArmResult, &Vec<Estimate>)| Line {
        arm: arm.arm.name.clone(),
        mean: points(means.iter().map(|estimate| estimate.mean).collect(), &tokens),
        band: (arm.runs.len() > 1).then(|| {
            let high = points(means.iter().map(|estimate| extent(estimate).1).collect(), &tokens);
            let low = points(means.iter().rev().map(|estimate| extent(estimate).0).collect(), &backwards);
            format!("{high} {low}")
        }),
    };
    Plot {
        title: if source == ALL { "all questions" } else { source }.to_string(),
        width: WIDTH,
        height: HEIGHT,
        frame: FRAME,
        x_ticks: x.ticks().map(|value| Tick { at: across(value), label: compact(value) }).collect(),
        y_ticks: y.ticks().map(|value| Tick { at: up(value), label: compact(value) }).collect(),
        lines: comparison.arms.iter().zip(&means).map(line).collect(),
    }
}

/// `250`, `50k`, `1.2M`.
fn compact(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{}M", (value / 1e5).round() / 10.0),
        v if v >= 1e3 => format!("{}k", (value / 1e2).round() / 10.0),
        _ => format!("{}", (value * 10.0).round() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::{arms, run};
    use super::*;
    use crate::compare::compare;

    #[test]
    fn round_numbers() {
        for (value, expected) in
            [(0.0, "0"), (250.0, "250"), (50_000.0, "50k"), (1_234_567.0, "1.2M"), (2.5, "2.5")]
        {
            assert_eq!(compact(value), expected);
        }
    }

    #[test]
    fn everything_lies_in_the_frame() {
        let runs = [
            run(0, 0, 1000.0, &[(0.1, 0.2), (0.9, 1.0)]),
            run(0, 1, 1000.0, &[(0.1, 0.0), (0.5, 0.6)]),
            run(1, 0, 1500.0, &[(0.0, 0.2), (0.3, 0.6)]),
        ];
        let plots = plots(&compare(&arms(), &runs, "grpo", &[]).unwrap());
        assert_eq!(
            plots.iter().map(|plot| plot.title.as_str()).collect::<Vec<_>>(),
            ["all questions", "1-hop"]
        );
        for line in plots.iter().flat_map(|plot| &plot.lines) {
            assert_eq!(line.band.is_some(), line.arm == "rex", "a single seed has no band");
            for point in
                [Some(&line.mean), line.band.as_ref()].into_iter().flatten().flat_map(|p| p.split(' '))
            {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!(
                    (FRAME.left..=FRAME.right).contains(&x) && (FRAME.top..=FRAME.bottom).contains(&y),
                    "{point}"
                );
            }
        }
        // 60 pieces from the left edge to the tokens that all reached.
        assert_eq!(plots[0].lines[1].mean.split(' ').count(), 61);
    }
}
