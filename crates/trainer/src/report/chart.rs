//! A line chart as SVG geometry.

use crate::axis::{Axis, Scale, short, step_ticks};
use serde::Serialize;

/// Size of a chart in its own units, and its margins.
const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 26.0;

/// Points of one line: more cannot be told apart on a chart.
const MAX_POINTS: usize = 400;
/// Up to here each point is marked.
const MARKED_POINTS: usize = 24;

/// A value that says no more than infinity does; the difference of two smaller ones is finite.
const BEYOND: f64 = 1e100;

/// One number over the steps.
pub(super) struct Series {
    pub(super) label: String,
    /// `(step, value)` by step; values may be NaN.
    pub(super) points: Vec<(usize, f64)>,
}

#[derive(Debug, Serialize)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// What it shows and how to read it.
    pub(super) about: String,
    /// The chart in words.
    summary: String,
    width: f64,
    height: f64,
    /// Left, right, top and bottom of the plot.
    plot: [f64; 4],
    /// First and last step of the plot.
    domain: [usize; 2],
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    lines: Vec<Line>,
    bound: Option<Tick>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Tick {
    at: f64,
    label: String,
}

#[derive(Debug, Serialize)]
struct Line {
    label: String,
    path: String,
    dots: Vec<(f64, f64)>,
    points: Vec<(usize, f64)>,
    last: String,
}

impl Chart {
    /// A chart over the steps `domain`, with a labelled bound where one is given. None where there is nothing to draw.
    pub(super) fn new(
        title: &'static str,
        about: String,
        scale: Scale,
        series: Vec<Series>,
        domain: [usize; 2],
        bound: Option<(f64, String)>,
    ) -> Option<Self> {
        let drawn = |value: f64| value.abs() < BEYOND && (scale != Scale::Log || value > 0.0);
        let shown: Vec<f64> =
            series.iter().flat_map(|s| &s.points).map(|&(_, value)| value).filter(|&v| drawn(v)).collect();
        if shown.is_empty() {
            return None;
        }
        let bounds = bound.iter().map(|(value, _)| *value);
        let axis = Axis::around(scale, shown.into_iter().chain(bounds));
        let [first, last] = [domain[0], domain[1].max(domain[0] + 1)];
        let x = |step: usize| {
            LEFT + (WIDTH - LEFT - RIGHT) * (step as f64 - first as f64) / (last as f64 - first as f64)
        };
        let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * axis.place(value);
        let lines: Vec<Line> = series
            .into_iter()
            .filter(|series| !series.points.is_empty())
            .map(|Series { label, points }| {
                let points = thinned(points);
                let places: Vec<Option<(f64, f64)>> =
                    points.iter().map(|&(step, value)| drawn(value).then(|| (x(step), y(value)))).collect();
                let dots = places.iter().flatten().copied().map(|(x, y)| (round(x), round(y)));
                Line {
                    path: path(&places),
                    dots: if places.len() <= MARKED_POINTS { dots.collect() } else { Vec::new() },
                    last: points.last().map_or_else(String::new, |&(_, value)| short(value)),
                    points: points.into_iter().filter_map(as_json).collect(),
                    label,
                }
            })
            .collect();
        let ends = |line: &Line| {
            let start = line.points.first().map_or_else(String::new, |&(_, value)| short(value));
            format!("{} from {start} to {}", line.label, line.last)
        };
        Some(Self {
            title,
            about,
            summary: lines.iter().map(ends).collect::<Vec<_>>().join(", "),
            width: WIDTH,
            height: HEIGHT,
            plot: [LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM],
            domain: [first, last],
            x_ticks: step_ticks(first, last)
                .map(|step| Tick { at: round(x(step)), label: step.to_string() })
                .collect(),
            y_ticks: axis.ticks().map(|value| Tick { at: round(y(value)), label: short(value) }).collect(),
            bound: bound.map(|(value, label)| Tick { at: round(y(value)), label }),
            lines,
        })
    }
}

/// At most [`MAX_POINTS`], evenly taken, the last among them.
fn thinned(points: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    let stride = points.len().div_ceil(MAX_POINTS).max(1);
    let last = points.len().saturating_sub(1);
    points
        .into_iter()
        .enumerate()
        .filter(|(i, _)| (last - i).is_multiple_of(stride))
        .map(|(_, point)| point)
        .collect()
}

/// A point in as many digits as the page ever shows; JSON has no NaN.
fn as_json((step, value): (usize, f64)) -> Option<(usize, f64)> {
    let value = value.is_finite().then(|| format!("{value:.4e}"))?;
    Some((step, value.parse().ok()?))
}

/// SVG path data, broken where a value is missing; a point alone is a line of no length, which round caps show.
fn path(places: &[Option<(f64, f64)>]) -> String {
    let mut path = String::new();
    let mut pen_down = false;
    for place in places {
        match place {
            Some((x, y)) if pen_down => path += &format!("L{} {}", round(*x), round(*y)),
            Some((x, y)) => path += &format!("M{} {}h0", round(*x), round(*y)),
            None => {}
        }
        pen_down = place.is_some();
    }
    path
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale, values: &[f64]) -> Option<Chart> {
        let points = values.iter().enumerate().map(|(step, &value)| (step, value)).collect();
        let series = vec![Series { label: "x".into(), points }];
        Chart::new("t", String::new(), scale, series, [0, values.len().saturating_sub(1)], None)
    }

    fn labels(scale: Scale, values: &[f64]) -> Vec<String> {
        chart(scale, values).unwrap().y_ticks.into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(labels(Scale::Zero, &[0.1, 0.93]), ["0", "0.5", "1"]);
        assert_eq!(labels(Scale::Zero, &[0.0, 0.0]), ["0", "0.5", "1"]);
        assert_eq!(labels(Scale::Free, &[101.0, 109.0]), ["100", "102", "104", "106", "108", "110"]);
        assert_eq!(labels(Scale::Log, &[2e-9, 1.0]), ["1e-10", "1e-8", "1e-6", "1e-4", "0.01", "1"]);
    }

    #[test]
    fn a_line_breaks_where_a_value_is_missing() {
        let chart = chart(Scale::Free, &[1.0, 2.0, f64::NAN, 3.0]).unwrap();
        assert_eq!(chart.lines[0].path.matches('M').count(), 2);
        assert_eq!(chart.lines[0].points, [(0, 1.0), (1, 2.0), (3, 3.0)]);
        assert!(!chart.lines[0].path.contains("NaN"));
        assert!(super::tests::chart(Scale::Log, &[0.0, -1.0]).is_none());
        assert!(super::tests::chart(Scale::Free, &[f64::NAN, 1e300]).is_none());
    }

    #[test]
    fn points_are_short_in_json() {
        assert_eq!(as_json((3, 2.0611536224e-9)), Some((3, 2.0612e-9)));
        assert_eq!(as_json((3, 0.14285714285)), Some((3, 0.14286)));
        assert_eq!(as_json((3, f64::INFINITY)), None);
    }

    #[test]
    fn long_runs_are_thinned_and_keep_their_end() {
        let thin = thinned((0..1005).map(|step| (step, 0.0)).collect());
        assert!(thin.len() <= MAX_POINTS);
        assert_eq!(thin.last().unwrap().0, 1004);
        assert!(thinned(Vec::new()).is_empty());
    }
}
