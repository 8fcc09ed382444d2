//! Runs into numbers: every arm over its seeds, and against the baseline.

use super::arms::Arm;
use super::bootstrap::Estimate;
use super::curve::Curve;
use crate::history::History;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A finished run of an arm.
#[derive(Debug, Clone)]
pub struct Run {
    /// Position of its arm.
    pub arm: usize,
    pub seed: u64,
    pub history: History,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The files with the questions of the evaluations.
    pub questions: Vec<String>,
    /// Where exact match is read: the most generated tokens that every run reached.
    pub tokens: f64,
    /// All questions first.
    pub sources: Vec<String>,
    /// The arm that the others are compared with.
    pub baseline: Option<String>,
    /// Those with a finished run.
    pub arms: Vec<ArmResult>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmResult {
    #[serde(flatten)]
    pub arm: Arm,
    #[serde(flatten)]
    pub measures: Measures<Estimate>,
    /// Share of dead ends over the first and the last steps.
    pub dead_ends: Option<(Estimate, Estimate)>,
    /// Share of dead ends that a probe solved.
    pub rescued: Option<Estimate>,
    /// Tokens that a run generated.
    pub generated: Estimate,
    pub seconds: Estimate,
    pub difference: Option<Difference>,
    pub runs: Vec<RunResult>,
}

/// What arms are judged by, by source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measures<T> {
    /// Exact match at [`Comparison::tokens`].
    pub em: BTreeMap<String, T>,
    /// Mean exact match over the tokens up to there.
    pub mean_em: BTreeMap<String, T>,
}

/// Arm less baseline, over the seeds that both have.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    pub seeds: Vec<u64>,
    #[serde(flatten)]
    pub measures: Measures<Estimate>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunResult {
    pub seed: u64,
    pub steps: usize,
    #[serde(flatten)]
    pub measures: Measures<f64>,
    pub dead_ends: Option<(f64, f64)>,
    pub rescued: Option<f64>,
    pub generated: f64,
    pub seconds: f64,
    /// Exact match over generated tokens, by source.
    pub curves: BTreeMap<String, Curve>,
}

/// Compares finished runs; those without an evaluation have nothing to compare and are left out. None if no run is left.
pub fn compare(arms: &[Arm], runs: &[Run], baseline: &str, questions: &[PathBuf]) -> Option<Comparison> {
    let runs: Vec<&Run> = runs.iter().filter(|run| !run.history.evaluations.is_empty()).collect();
    let mut sources = runs.first()?.history.sources();
    for run in &runs {
        let known = run.history.sources();
        sources.retain(|source| known.contains(source));
    }
    let tokens = runs.iter().map(|run| end(run)).fold(f64::INFINITY, f64::min);
    let results: Vec<Vec<RunResult>> = (0..arms.len())
        .map(|arm| {
            let mut of: Vec<_> = runs
                .iter()
                .filter(|run| run.arm == arm)
                .map(|run| RunResult::of(run, &sources, tokens))
                .collect();
            of.sort_by_key(|run| run.seed);
            of
        })
        .collect();
    let baseline = arms.iter().position(|arm| arm.name == baseline).filter(|&arm| !results[arm].is_empty());
    let against = |arm: usize| {
        let baseline = baseline.filter(|&baseline| baseline != arm)?;
        Difference::of(&results[arm], &results[baseline])
    };
    let present = (0..arms.len()).filter(|&arm| !results[arm].is_empty());
    let arms_compared = present.map(|arm| ArmResult::of(&arms[arm], &results[arm], against(arm))).collect();
    let baseline = baseline.map(|arm| arms[arm].name.clone());
    let questions = questions.iter().map(|file| file.display().to_string()).collect();
    Some(Comparison { questions, tokens, sources, baseline, arms: arms_compared })
}

/// Tokens at a run's last evaluation.
fn end(run: &Run) -> f64 {
    run.history.em(crate::evaluate::ALL).end()
}

impl RunResult {
    fn of(run: &Run, sources: &[String], tokens: f64) -> Self {
        let history = &run.history;
        let curves: BTreeMap<String, Curve> =
            sources.iter().map(|source| (source.clone(), history.em(source))).collect();
        let over = |value: &dyn Fn(&Curve) -> f64| {
            curves.iter().map(|(source, curve)| (source.clone(), value(curve))).collect()
        };
        let measures =
            Measures { em: over(&|curve| curve.at(tokens)), mean_em: over(&|curve| curve.mean_to(tokens)) };
        Self {
            seed: run.seed,
            steps: history.step(),
            measures,
            dead_ends: history.dead_ends(),
            rescued: history.rescued(),
            generated: history.tokens(usize::MAX),
            seconds: history.seconds(),
            curves,
        }
    }
}

impl ArmResult {
    fn of(arm: &Arm, runs: &[RunResult], difference: Option<Difference>) -> Self {
        let over =
            |value: &dyn Fn(&RunResult) -> f64| Estimate::of(&runs.iter().map(value).collect::<Vec<_>>());
        let some = |value: &dyn Fn(&RunResult) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(value).collect();
            (!values.is_empty()).then(|| Estimate::of(&values))
        };
        let first = some(&|run| run.dead_ends.map(|(first, _)| first));
        let last = some(&|run| run.dead_ends.map(|(_, last)| last));
        Self {
            arm: arm.clone(),
            measures: Measures::over(&runs.iter().map(|run| &run.measures).collect::<Vec<_>>(), Estimate::of),
            dead_ends: first.zip(last),
            rescued: some(&|run| run.rescued),
            generated: over(&|run| run.generated),
            seconds: over(&|run| run.seconds),
            difference,
            runs: runs.to_vec(),
        }
    }
}

impl Difference {
    fn of(arm: &[RunResult], baseline: &[RunResult]) -> Option<Self> {
        let pair = |run: &RunResult| {
            let same = baseline.iter().find(|other| other.seed == run.seed)?;
            Some((run.seed, Measures::over(&[&run.measures, &same.measures], |pair| pair[0] - pair[1])))
        };
        let (seeds, pairs): (Vec<u64>, Vec<Measures<f64>>) = arm.iter().filter_map(pair).unzip();
        let measures = || Measures::over(&pairs.iter().collect::<Vec<_>>(), Estimate::of);
        (!seeds.is_empty()).then(|| Self { measures: measures(), seeds })
    }
}

impl Measures<f64> {
    /// One measure out of several runs', source by source. All have the sources of the first.
    fn over<T>(runs: &[&Self], combine: impl Fn(&[f64]) -> T) -> Measures<T> {
        let by_source = |of: fn(&Self) -> &BTreeMap<String, f64>| {
            let values = |source: &String| runs.iter().map(|run| of(run)[source]).collect::<Vec<_>>();
            of(runs[0]).keys().map(|source| (source.clone(), combine(&values(source)))).collect()
        };
        Measures { em: by_source(|run| &run.em), mean_em: by_source(|run| &run.mean_em) }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::metrics::Metrics;

    /// A run of evaluations `(EM of all, EM of 1-hop)`, `tokens` generated between two.
    pub fn run(arm: usize, seed: u64, tokens: f64, em: &[(f64, f64)]) -> Run {
        let mut lines = Vec::new();
        for (step, &(all, hop)) in em.iter().enumerate() {
            if step > 0 {
                let mut line = Metrics::new(step);
                line.set("rollout/tokens_decoded", tokens);
                line.set("timing_s/step", 3.0);
                for (name, value) in [("dead_end_rate", 0.5), ("probes", 2.0), ("rescued", 0.25)] {
                    line.set(format!("rex/{name}"), value);
                }
                lines.push(line);
            }
            let mut line = Metrics::new(step);
            line.set("val-core/all/em/mean@1", all);
            line.set("val-core/1-hop/em/mean@1", hop);
            lines.push(line);
        }
        Run { arm, seed, history: History::of(lines) }
    }

    pub fn arms() -> Vec<Arm> {
        ["rex", "grpo", "uniform"].map(|name| Arm::built_in(name).unwrap()).to_vec()
    }

    #[test]
    fn at_the_tokens_that_every_run_reached_and_paired_by_seed() {
        let runs = [
            run(1, 0, 100.0, &[(0.1, 0.2), (0.2, 0.4)]),
            run(0, 1, 200.0, &[(0.1, 0.2), (0.5, 0.6)]),
            run(0, 0, 200.0, &[(0.1, 0.2), (0.3, 0.6)]),
            run(0, 7, 200.0, &[(0.1, 0.2), (0.7, 0.6)]),
            run(1, 1, 100.0, &[(0.1, 0.2), (0.2, 0.4), (0.6, 0.8)]),
        ];
        let result = compare(&arms(), &runs, "grpo", &[]).unwrap();
        assert_eq!(result.tokens, 100.0);
        assert_eq!(result.sources, ["all", "1-hop"]);
        assert_eq!(result.arms.len(), 2, "an arm without a run is left out");
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} and {b}");

        // REX at half its tokens: 0.2, 0.3, 0.4; its mean over them 0.15, 0.2, 0.25. GRPO: 0.2 and 0.2; 0.15 and 0.15.
        let rex = &result.arms[0];
        assert_eq!(rex.runs.iter().map(|run| run.seed).collect::<Vec<_>>(), [0, 1, 7]);
        close(rex.measures.em["all"].mean, 0.3);
        close(rex.measures.em["1-hop"].mean, 0.4);
        close(rex.measures.mean_em["all"].mean, 0.2);
        close(rex.generated.mean, 200.0);
        close(rex.seconds.mean, 3.0);
        close(rex.rescued.unwrap().mean, 0.25);
        let difference = rex.difference.as_ref().unwrap();
        assert_eq!(difference.seeds, [0, 1], "seed 7 has no partner");
        close(difference.measures.em["all"].mean, 0.05);
        close(difference.measures.mean_em["all"].mean, 0.025);
        assert!(!difference.measures.em["all"].excludes_zero());
        assert!(result.arms[1].difference.is_none(), "the baseline itself");
    }

    #[test]
    fn nothing_to_compare() {
        assert_eq!(compare(&arms(), &[], "grpo", &[]), None);
        let empty = Run { arm: 0, seed: 0, history: History::default() };
        assert_eq!(compare(&arms(), &[empty], "grpo", &[]), None);
        let alone = compare(&arms(), &[run(0, 0, 5.0, &[(0.1, 0.2), (0.2, 0.4)])], "grpo", &[]).unwrap();
        assert_eq!(alone.baseline, None);
        assert_eq!(alone.arms[0].measures.em["all"].interval, None, "a single seed");
    }
}
