//! Every rule fires on a made-up history that has the fault, and on none that has not.

use super::{Kind, of};
use crate::config::Config;
use crate::metrics::Metrics;

/// A history of these numbers by name, step after step; steps where a number is NaN lack it.
fn history(columns: &[(&str, &[f64])]) -> Vec<Metrics> {
    let steps = columns.iter().map(|(_, values)| values.len()).max().unwrap_or_default();
    let line = |step: usize| {
        let mut metrics = Metrics::new(step + 1);
        for (name, values) in columns {
            if let Some(value) = values.get(step).filter(|value| !value.is_nan()) {
                metrics.set(*name, *value);
            }
        }
        metrics
    };
    (0..steps).map(line).collect()
}

/// `start` five times, then `end` five times.
fn fall(start: f64, end: f64) -> [f64; 10] {
    std::array::from_fn(|step| if step < 5 { start } else { end })
}

fn config(words: &[&str]) -> Config {
    let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    Config::load(None, &words).unwrap()
}

/// Expects one warning at a step, or none at all.
fn check(words: &[&str], columns: &[(&str, &[f64])], expected: Option<(Kind, usize)>) {
    let found = of(&history(columns), &config(words));
    let found: Vec<(Kind, usize)> = found.iter().map(|warning| (warning.kind, warning.step)).collect();
    assert_eq!(found, Vec::from_iter(expected), "{words:?} {columns:?}");
}

#[test]
fn entropy() {
    let check = |start, end, expected| check(&[], &[("actor/entropy", &fall(start, end))], expected);
    check(0.6, 0.05, Some((Kind::EntropyCollapse, 10)));
    check(0.6, 0.11, None);
    check(0.06, 0.03, None);
    check(0.06, 0.01, Some((Kind::EntropyCollapse, 10)));
    check(0.6, f64::INFINITY, None);
}

#[test]
fn searches() {
    let check = |searches: [f64; 10], em: [f64; 10], expected| {
        check(&[], &[("rollout/searches", &searches), ("rex/em", &em)], expected);
    };
    check(fall(1.5, 0.1), fall(0.3, 0.3), Some((Kind::SearchCollapse, 10)));
    check(fall(1.5, 0.1), fall(0.3, 0.5), None);
    check(fall(1.5, 0.5), fall(0.3, 0.2), None);
    check(fall(0.1, 0.0), fall(0.3, 0.3), None);
}

#[test]
fn likelihood_of_what_is_right() {
    let check = |values: &[f64], expected| check(&[], &[("rex/correct_log_prob", values)], expected);
    check(&fall(-0.4, -0.8), Some((Kind::CorrectLessLikely, 10)));
    check(&fall(-0.4, -0.6), None);
    check(&fall(-0.8, -0.2), None);
    check(&fall(-0.4, -0.8)[..9], None);
    // Steps without a correct transcript have no such number and do not count.
    let mut gaps = fall(-0.4, -0.8).to_vec();
    gaps.splice(5..5, [f64::NAN; 4]);
    check(&gaps, Some((Kind::CorrectLessLikely, 14)));
}

#[test]
fn alpha() {
    let check = |words: &[&str], alpha, expected| check(words, &[("rex/alpha", &[0.0, alpha])], expected);
    let fires = Some((Kind::AlphaOverClip, 2));
    check(&[], 0.17, fires);
    check(&[], 0.16, None);
    check(&["algorithm.clip_ratio_high=0.28"], 0.2, None);
    check(&["algorithm.clip_ratio_high=0.28"], 0.22, fires);
    check(&["algorithm.loss=gspo"], 0.2, fires);
    check(&["algorithm.loss=cispo"], 0.5, None);
    check(&["algorithm.correction=none"], 0.5, None);
    check(&["algorithm.correction=trajectory"], 0.5, None);
}

#[test]
fn gradient() {
    let check = |highest: &[f64], expected| {
        let lowest: Vec<f64> = highest.iter().map(|value| -value).collect();
        let columns = [("critic/advantages/max", highest), ("critic/advantages/min", &lowest)];
        check(&[], &columns, expected);
    };
    check(&[1.2, 0.0, 1e-10, 0.0, 1.0], Some((Kind::NoGradient, 4)));
    check(&[0.0, 0.0, 1.2, 0.0, 0.0, 1.2], None);
    let flat = |em| {
        history(&[
            ("critic/advantages/max", &[0.0; 6]),
            ("critic/advantages/min", &[0.0; 6]),
            ("rex/em", &[em; 6]),
        ])
    };
    assert!(of(&flat(0.0), &config(&[]))[0].message.contains("wrong"));
    assert!(of(&flat(1.0), &config(&[]))[0].message.contains("right"));
}

#[test]
fn truncation() {
    let check = |values: &[f64], expected| check(&[], &[("rollout/truncated", values)], expected);
    check(&[0.3; 5], Some((Kind::Truncated, 5)));
    check(&[0.3; 4], None);
    check(&[0.1; 9], None);
    check(&[0.0, 0.9, 0.0, 0.0, 0.0, 0.0], None);
}

#[test]
fn probes() {
    let check =
        |words: &[&str], ratio, expected| check(words, &[("rex/keep_ratio", &[0.08, ratio])], expected);
    check(&[], 0.009, Some((Kind::ProbesFail, 2)));
    check(&[], 0.011, None);
    check(&["probe.keep_ratio=0.5"], 0.05, Some((Kind::ProbesFail, 2)));
    check(&["probe.keep_ratio=0"], 0.0, None);
}

#[test]
fn skipped() {
    check(&[], &[("rex/skipped_updates", &[0.0, 0.0, 1.0, 2.0])], Some((Kind::SkippedUpdates, 3)));
    check(&[], &[("rex/skipped_updates", &[0.0, 0.0])], None);
}

/// Lines of evaluations and of supervised runs have other numbers.
#[test]
fn other_lines_say_nothing() {
    check(&[], &[("val-core/all/em/mean@1", &[0.0; 20]), ("sft/loss", &[f64::INFINITY; 20])], None);
    check(&[], &[], None);
}
