//! A run read back from its `metrics.jsonl`: an unbroken run and a resumed one read the same.

use crate::compare::Curve;
use crate::error::TrainError;
use crate::evaluate::{ALL, em_name, source_of_em};
use crate::metrics::{self, Metrics, mean};
use std::path::Path;

/// Every line of a run, by kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    pub steps: Vec<Metrics>,
    pub evaluations: Vec<Metrics>,
}

/// Steps at either end of a run over which a rate is averaged: a single step is noisy.
const END: usize = 5;

impl History {
    /// Reads a `metrics.jsonl`. A line that a crash cut short is left out, as it is when the run goes on.
    ///
    /// # Errors
    /// The file system's, with the path.
    pub fn read(path: &Path) -> Result<Self, TrainError> {
        Ok(Self::of(metrics::read(path)?.0))
    }

    pub fn of(lines: impl IntoIterator<Item = Metrics>) -> Self {
        let (evaluations, steps) =
            lines.into_iter().partition(|line: &Metrics| line.get(&em_name(ALL)).is_some());
        Self { steps, evaluations }
    }

    /// The last step done.
    pub fn step(&self) -> usize {
        self.steps.last().map_or(0, Metrics::step)
    }

    /// The sources of the evaluations: all questions first, then by name.
    pub fn sources(&self) -> Vec<String> {
        let mut sources: Vec<String> = self
            .evaluations
            .first()
            .into_iter()
            .flat_map(Metrics::iter)
            .filter_map(|(name, _)| source_of_em(name).map(str::to_string))
            .collect();
        sources.sort_by_key(|source| source != ALL);
        sources
    }

    /// Exact match on a source, over the tokens generated until then.
    pub fn em(&self, source: &str) -> Curve {
        let name = em_name(source);
        let points =
            self.evaluations.iter().filter_map(|line| Some((self.tokens(line.step()), line.get(&name)?)));
        Curve::new(points.collect())
    }

    /// Tokens that the policy generated in training up to and including `step`.
    pub fn tokens(&self, step: usize) -> f64 {
        let until = self.steps.iter().filter(|line| line.step() <= step);
        until.filter_map(|line| line.get("rollout/tokens_decoded")).sum()
    }

    /// Time spent in steps and evaluations.
    pub fn seconds(&self) -> f64 {
        let of = |lines: &[Metrics], name: &str| lines.iter().filter_map(|line| line.get(name)).sum::<f64>();
        of(&self.steps, "timing_s/step") + of(&self.evaluations, "timing_s/testing")
    }

    /// Share of dead ends over the first and over the last steps.
    pub fn dead_ends(&self) -> Option<(f64, f64)> {
        let rates: Vec<f64> = self.steps.iter().filter_map(|line| line.get("rex/dead_end_rate")).collect();
        let end = END.min(rates.len().div_ceil(2));
        let of = |rates: &[f64]| mean(rates.iter().copied());
        (end > 0).then(|| (of(&rates[..end]), of(&rates[rates.len() - end..])))
    }

    /// Share of all dead ends that a probe solved; absent in a run without probes.
    pub fn rescued(&self) -> Option<f64> {
        let (mut probes, mut rescued, mut dead_ends) = (0.0, 0.0, 0.0);
        for line in &self.steps {
            let rate = line.get("rex/dead_end_rate")?;
            probes += line.get("rex/probes")?;
            dead_ends += rate;
            rescued += rate * line.get("rex/rescued")?;
        }
        (probes > 0.0 && dead_ends > 0.0).then(|| rescued / dead_ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(step: usize, values: &[(&str, f64)]) -> Metrics {
        let mut line = Metrics::new(step);
        values.iter().for_each(|(name, value)| line.set(*name, *value));
        line
    }

    fn step(step: usize, tokens: f64, dead_ends: f64, rescued: f64) -> Metrics {
        line(
            step,
            &[
                ("rollout/tokens_decoded", tokens),
                ("rex/dead_end_rate", dead_ends),
                ("rex/probes", 4.0),
                ("rex/rescued", rescued),
                ("timing_s/step", 2.0),
            ],
        )
    }

    fn evaluation(step: usize, all: f64, hop: f64) -> Metrics {
        line(
            step,
            &[
                ("val-core/all/em/mean@1", all),
                ("val-core/1-hop/em/mean@1", hop),
                ("val-aux/1-hop/f1/mean@1", 0.9),
                ("timing_s/testing", 1.0),
            ],
        )
    }

    #[test]
    fn by_hand() {
        let history = History::of([
            evaluation(0, 0.1, 0.2),
            step(1, 100.0, 0.8, 0.25),
            step(2, 50.0, 0.4, 0.0),
            evaluation(2, 0.3, 0.6),
            step(3, 10.0, 0.2, 0.5),
            evaluation(3, 0.5, 0.5),
        ]);
        assert_eq!(history.step(), 3);
        assert_eq!(history.sources(), ["all", "1-hop"]);
        assert_eq!(history.em("1-hop").points(), [(0.0, 0.2), (150.0, 0.6), (160.0, 0.5)]);
        assert_eq!(history.tokens(2), 150.0);
        assert_eq!(history.seconds(), 9.0);
        let (first, last) = history.dead_ends().unwrap();
        assert!((first - 0.6).abs() < 1e-12 && (last - 0.3).abs() < 1e-12, "{first} {last}");
        // (0.8 · 0.25 + 0.2 · 0.5) / 1.4
        assert!((history.rescued().unwrap() - 0.3 / 1.4).abs() < 1e-12);
    }

    #[test]
    fn a_run_that_has_not_begun_has_nothing() {
        let history = History::default();
        assert_eq!((history.step(), history.dead_ends(), history.rescued()), (0, None, None));
        assert!(history.sources().is_empty());
    }
}
