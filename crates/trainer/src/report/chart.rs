//! A line chart as SVG geometry: scales, ticks and paths.

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

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero, for shares and counts.
    Zero,
    /// From the smallest value.
    Free,
    /// By orders of magnitude; what is not positive is not shown.
    Log,
}

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
        let drawn = |value: f64| value.is_finite() && (scale != Scale::Log || value > 0.0);
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
                    // JSON has no NaN.
                    points: points.into_iter().filter(|(_, value)| value.is_finite()).collect(),
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

/// The values between two round numbers, at `step` from each other; decimal logarithms on a [`Scale::Log`].
struct Axis {
    log: bool,
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let log = scale == Scale::Log;
        let of = |value: f64| if log { value.log10() } else { value };
        let (mut low, mut high) = values
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (value.min(low), value.max(high)));
        if scale == Scale::Zero {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        if high - low <= 1e-12 * high.abs() {
            (low, high) = if scale == Scale::Zero { (low, low + 1.0) } else { (low - 0.5, high + 0.5) };
        }
        let step = if log { ((high - low) / 5.0).ceil().max(1.0) } else { round_step((high - low) / 4.0) };
        Self { log, low: (low / step).floor() * step, high: (high / step).ceil() * step, step }
    }

    /// From 0 at the bottom to 1 at the top.
    fn place(&self, value: f64) -> f64 {
        let value = if self.log { value.log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
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

fn step_ticks(first: usize, last: usize) -> impl Iterator<Item = usize> {
    let step = round_step((last - first) as f64 / 5.0).max(1.0) as usize;
    (first.div_ceil(step)..=last / step).map(move |i| i * step)
}

/// At most [`MAX_POINTS`], evenly taken, the last among them.
fn thinned(points: Vec<(usize, f64)>) -> Vec<(usize, f64)> {
    let stride = points.len().div_ceil(MAX_POINTS).max(1);
    let last = points.len().saturating_sub(1);
    points.into_iter().enumerate().filter(|(i, _)| (last - i) % stride == 0).map(|(_, point)| point).collect()
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

/// A number in at most four digits, or with an exponent.
pub(super) fn short(value: f64) -> String {
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
        assert_eq!(step_ticks(1, 60).collect::<Vec<_>>(), [20, 40, 60]);
        assert_eq!(step_ticks(0, 1).collect::<Vec<_>>(), [0, 1]);
    }

    #[test]
    fn a_line_breaks_where_a_value_is_missing() {
        let chart = chart(Scale::Free, &[1.0, 2.0, f64::NAN, 3.0]).unwrap();
        assert_eq!(chart.lines[0].path.matches('M').count(), 2);
        assert_eq!(chart.lines[0].points.len(), 3);
        assert!(!chart.lines[0].path.contains("NaN"));
        assert!(super::tests::chart(Scale::Log, &[0.0, -1.0]).is_none());
        assert!(super::tests::chart(Scale::Free, &[f64::NAN]).is_none());
    }

    #[test]
    fn long_runs_are_thinned_and_keep_their_end() {
        let thin = thinned((0..1005).map(|step| (step, 0.0)).collect());
        assert!(thin.len() <= MAX_POINTS);
        assert_eq!(thin.last().unwrap().0, 1004);
        assert!(thinned(Vec::new()).is_empty());
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
