//! Which numbers of a run are drawn, and how each drawing is read.

use super::chart::{Chart, Series};
use super::run::Run;
use crate::axis::Scale::{self, Free, Log, Zero};
use crate::metrics::Metrics;
use crate::warnings::alpha_bound;
use serde::Serialize;
use std::collections::BTreeSet;

/// Charts that belong together.
#[derive(Serialize)]
pub(super) struct Section {
    title: &'static str,
    charts: Vec<Chart>,
}

struct Spec {
    title: &'static str,
    about: &'static str,
    scale: Scale,
    /// Names in `metrics.jsonl`, and what the legend says.
    series: &'static [(&'static str, &'static str)],
    /// The number that is 0 throughout where what it shows is switched off.
    switch: Option<&'static str>,
}

const PERCENTILES: &str = "Percentiles over the tokens of a step of π_θ/π_mix, the ratio of the loss.";

const SECTIONS: &[(&str, &[Spec])] = &[
    (
        "Supervised training",
        &[
            spec(
                "Loss",
                "Mean negative log-likelihood of what is to be learnt, in nats a token.",
                Zero,
                &[("sft/loss", "loss")],
            ),
            spec(
                "Accuracy",
                "Share of tokens that the model would have chosen.",
                Zero,
                &[("sft/accuracy", "accuracy")],
            ),
        ],
    ),
    (
        "Results",
        &[
            spec(
                "Reward and exact match",
                "Reward of all transcripts in the loss; exact match of the originals, which the policy wrote by itself.",
                Zero,
                &[("critic/rewards/mean", "reward"), ("rex/em", "exact match of originals")],
            ),
            spec(
                "Answers",
                "Shares of the originals that give an answer, and that the context cuts off.",
                Zero,
                &[("rollout/answered", "answered"), ("rollout/truncated", "cut off")],
            ),
        ],
    ),
    (
        "Dead ends and probes",
        &[
            spec(
                "Dead ends",
                "Share of questions whose originals all fail, and share of those that a probe solved.",
                Zero,
                &[("rex/dead_end_rate", "dead ends"), ("rex/rescued", "of them rescued")],
            ),
            spec(
                "Probes",
                "Exact match of the probes, and its moving average, by which probes are kept per original.",
                Zero,
                &[("rex/probe_em", "exact match of probes"), ("rex/keep_ratio", "keep ratio κ")],
            )
            .unless_zero("rex/probes"),
        ],
    ),
    (
        "Policy correction",
        &[
            spec(
                "Share of probes α",
                "Share of probes among the transcripts in the loss.",
                Zero,
                &[("rex/alpha", "α")],
            )
            .unless_zero("rex/probes"),
            spec(
                "Effective sample size",
                "Of how many equally weighted tokens the weighted ones are worth, as a share. 1 is on-policy.",
                Zero,
                &[("rex/ess", "effective share")],
            ),
            spec(
                "Clipped tokens",
                "Share of tokens whose gradient the clip takes, by author.",
                Zero,
                &[("rex/clipfrac/model", "model"), ("rex/clipfrac/probe", "exploration prompt")],
            ),
            spec(
                "Ratio, model's tokens",
                PERCENTILES,
                Free,
                &[
                    ("rex/ratio/model/p99", "99 %"),
                    ("rex/ratio/model/p95", "95 %"),
                    ("rex/ratio/model/p50", "median"),
                    ("rex/ratio/model/p5", "5 %"),
                    ("rex/ratio/model/p1", "1 %"),
                ],
            ),
            spec(
                "Ratio, exploration prompts",
                PERCENTILES,
                Log,
                &[
                    ("rex/ratio/probe/p99", "99 %"),
                    ("rex/ratio/probe/p95", "95 %"),
                    ("rex/ratio/probe/p50", "median"),
                    ("rex/ratio/probe/p5", "5 %"),
                    ("rex/ratio/probe/p1", "1 %"),
                ],
            ),
        ],
    ),
    (
        "Policy",
        &[
            spec(
                "Entropy",
                "Mean surprise of the drawn tokens, in nats.",
                Zero,
                &[("actor/entropy", "entropy")],
            ),
            spec(
                "Correct transcripts",
                "Mean log-probability of a token that the policy wrote in a correct original. Its fall announces a collapse.",
                Free,
                &[("rex/correct_log_prob", "log-probability")],
            ),
            spec(
                "Policy loss",
                "Of the step's updates, on average.",
                Free,
                &[("actor/pg_loss", "policy loss")],
            ),
            spec(
                "KL to the reference",
                "Estimate of the distance from the starting point.",
                Free,
                &[("actor/kl_loss", "KL")],
            )
            .unless_zero("actor/kl_loss"),
            spec(
                "Gradient norm",
                "Before clipping.",
                Zero,
                &[("actor/grad_norm", "norm"), ("sft/grad_norm", "norm")],
            ),
            spec(
                "Sampling against training",
                "Largest difference between a log-probability recorded while sampling and the training forward's: rounding, if all is well.",
                Log,
                &[("rollout/logprob_diff_max", "difference")],
            ),
        ],
    ),
    (
        "Rollouts",
        &[
            spec(
                "Length",
                "Tokens that the policy wrote in a transcript.",
                Zero,
                &[
                    ("response_length/mean", "mean"),
                    ("response_length/max", "longest"),
                    ("response_length/min", "shortest"),
                ],
            ),
            spec("Searches", "Of an original.", Zero, &[("rollout/searches", "searches")]),
            spec(
                "Time of a step",
                "In seconds.",
                Zero,
                &[
                    ("timing_s/step", "step"),
                    ("timing_s/gen", "rollouts"),
                    ("timing_s/update_actor", "update"),
                ],
            ),
        ],
    ),
];

const fn spec(
    title: &'static str,
    about: &'static str,
    scale: Scale,
    series: &'static [(&'static str, &'static str)],
) -> Spec {
    Spec { title, about, scale, series, switch: None }
}

impl Spec {
    const fn unless_zero(self, name: &'static str) -> Self {
        Self { switch: Some(name), ..self }
    }
}

/// The charts of a run, without those for which it has no numbers.
pub(super) fn sections(run: &Run) -> Vec<Section> {
    let steps = run.metrics.iter().map(Metrics::step);
    let domain = [steps.clone().min().unwrap_or_default(), steps.max().unwrap_or_default()];
    let mut sections: Vec<Section> = SECTIONS
        .iter()
        .map(|(title, specs)| {
            let charts = specs.iter().filter_map(|spec| chart(run, spec, domain)).collect();
            Section { title, charts }
        })
        .collect();
    let results = sections.iter_mut().find(|section| section.title == "Results");
    if let (Some(section), Some(chart)) = (results, validation(run, domain)) {
        section.charts.insert(0, chart);
    }
    sections.retain(|section| !section.charts.is_empty());
    sections
}

fn chart(run: &Run, spec: &Spec, domain: [usize; 2]) -> Option<Chart> {
    let Spec { title, about, scale, series, switch } = *spec;
    let series: Vec<Series> = series
        .iter()
        .map(|(name, label)| Series { label: label.to_string(), points: points(run, name) })
        .filter(|series| !series.points.is_empty())
        .collect();
    if switch.is_some_and(|name| points(run, name).iter().all(|(_, value)| *value == 0.0)) {
        return None;
    }
    let bound = alpha_bound(&run.config).filter(|_| title.ends_with('α'));
    let bound = bound.map(|bound| (bound, "above, originals are clipped".to_string()));
    Chart::new(title, about.to_string(), scale, series, domain, bound)
}

fn validation(run: &Run, domain: [usize; 2]) -> Option<Chart> {
    let sources = sources(&run.metrics);
    // With one source its scores are those of all.
    let shown = sources.iter().filter(|source| sources.len() != 2 || *source != "all");
    let series = shown.map(|source| Series { label: source.clone(), points: points(run, &em(source)) });
    let about = "Exact match on the validation questions, by source, likeliest tokens.".to_string();
    Chart::new("Validation", about, Zero, series.collect(), domain, None)
}

/// The name of a source's exact match in `metrics.jsonl`.
pub(super) fn em(source: &str) -> String {
    format!("val-core/{source}/em/mean@1")
}

/// The sources of a run's evaluations, `all` last.
pub(super) fn sources(metrics: &[Metrics]) -> Vec<String> {
    let names = metrics.iter().flat_map(|line| line.iter().map(|(name, _)| name));
    let source = |name: &str| Some(name.strip_prefix("val-core/")?.strip_suffix("/em/mean@1")?.to_string());
    let sources: BTreeSet<String> = names.filter_map(source).collect();
    let (all, mut sources): (Vec<_>, Vec<_>) = sources.into_iter().partition(|source| source == "all");
    sources.extend(all);
    sources
}

fn points(run: &Run, name: &str) -> Vec<(usize, f64)> {
    run.metrics.iter().filter_map(|line| Some((line.step(), line.get(name)?))).collect()
}
