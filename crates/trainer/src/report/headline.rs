//! What a run came to, in a few numbers.

use super::curves::sources;
use super::run::Run;
use crate::evaluate::{ALL, em_name};
use crate::metrics::Metrics;
use crate::quantity::{count, duration};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Headline {
    /// One line on how far the run is.
    state: String,
    /// Steps after which the first and the last evaluation were made.
    evaluated: Option<[usize; 2]>,
    scores: Vec<Score>,
    facts: Vec<Fact>,
}

/// Exact match in per cent.
#[derive(Serialize)]
struct Score {
    source: String,
    before: String,
    after: String,
    change: String,
}

#[derive(Serialize)]
struct Fact {
    name: &'static str,
    value: String,
}

impl Headline {
    pub(super) fn of(run: &Run) -> Self {
        let total = run.config.trainer.total_steps;
        let done = run.last_step();
        let evaluated = |name: &str| {
            run.metrics.iter().filter(|line| line.get(name).is_some()).map(Metrics::step).collect::<Vec<_>>()
        };
        let steps = evaluated(&em_name(ALL));
        Self {
            state: match done {
                done if is_supervised(run) => format!("{done} steps of supervised training are done."),
                0 => "No step is done yet.".to_string(),
                done if done >= total => format!("All {total} steps are done."),
                done => format!("{done} of {total} steps are done: the run goes on, was stopped, or failed."),
            },
            evaluated: steps.first().zip(steps.last()).map(|(first, last)| [*first, *last]),
            scores: sources(&run.metrics).iter().filter_map(|source| Score::of(run, source)).collect(),
            facts: facts(run),
        }
    }
}

impl Score {
    fn of(run: &Run, source: &str) -> Option<Self> {
        let name = em_name(source);
        let mut values = run.metrics.iter().filter_map(|line| line.get(&name));
        let before = values.next()?;
        let after = values.next_back().unwrap_or(before);
        let percent = |value: f64| format!("{:.1}", 100.0 * value);
        Some(Self {
            source: source.to_string(),
            before: percent(before),
            after: percent(after),
            change: format!("{:+.1}", 100.0 * (after - before)),
        })
    }
}

/// `rex sft` leaves a run directory, too.
fn is_supervised(run: &Run) -> bool {
    run.metrics.iter().any(|line| line.get("sft/loss").is_some())
}

fn facts(run: &Run) -> Vec<Fact> {
    let numbers = |name: &str| {
        run.metrics.iter().filter_map(|line| line.get(name)).filter(|v| v.is_finite()).collect::<Vec<f64>>()
    };
    let sum = |name: &str| numbers(name).iter().sum::<f64>();
    let name = serde_json::to_value(run.config.algorithm.name).expect("plain data");
    let algorithm = if is_supervised(run) { "supervised" } else { name.as_str().unwrap_or_default() };
    let mut facts = vec![
        Fact { name: "Algorithm", value: algorithm.to_string() },
        Fact { name: "Model", value: run.config.model.path.display().to_string() },
        Fact { name: "Time in steps", value: duration(sum("timing_s/step")) },
    ];
    let tokens = sum("rollout/tokens_decoded");
    if tokens > 0.0 {
        let (batch, group) = (run.config.data.train_batch_size, run.config.rollout.group_size);
        facts.push(Fact { name: "Tokens generated", value: count(tokens) });
        facts.push(Fact { name: "A step", value: format!("{batch} questions × {group} originals") });
    }
    let questions = run.config.data.train_batch_size as f64;
    let dead: f64 = numbers("rex/dead_end_rate").iter().map(|rate| (rate * questions).round()).sum();
    let rescued =
        |line: &Metrics| Some(line.get("rex/dead_end_rate")? * line.get("rex/rescued")? * questions);
    let rescued: f64 = run.metrics.iter().filter_map(rescued).filter(|n| n.is_finite()).map(f64::round).sum();
    if dead > 0.0 && run.config.probe.probability > 0.0 {
        facts.push(Fact {
            name: "Dead ends rescued",
            value: format!("{} of {}", count(rescued), count(dead)),
        });
    }
    // Hopworld's first model comes from no folder.
    facts.retain(|fact| !fact.value.is_empty());
    facts
}
