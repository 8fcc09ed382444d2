//! Which numbers of a run are drawn, and how each drawing is read.

use super::chart::Scale::{Free, Log, Zero};
use super::chart::{Chart, Scale, Series};
use super::run::Run;
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
}

const PERCENTILES: &str = "Percentiles over the tokens of a step of π_θ/π_mix, the ratio of the loss.";

const SECTIONS: &[(&str, &[Spec])] = &[
    (
        "Supervised training",
        &[
            Spec {
                title: "Loss",
                about: "Mean negative log-likelihood of what is to be learnt, in nats a token.",
                scale: Zero,
                series: &[("sft/loss", "loss")],
            },
            Spec {
                title: "Accuracy",
                about: "Share of tokens that the model would have chosen.",
                scale: Zero,
                series: &[("sft/accuracy", "accuracy")],
            },
        ],
    ),
    (
        "Results",
        &[
            Spec {
                title: "Reward and exact match",
                about: "Reward of all transcripts in the loss; exact match of the originals, which the policy wrote by itself.",
                scale: Zero,
                series: &[("critic/rewards/mean", "reward"), ("rex/em", "exact match of originals")],
            },
            Spec {
                title: "Answers",
                about: "Shares of the originals that give an answer, and that the context cuts off.",
                scale: Zero,
                series: &[("rollout/answered", "answered"), ("rollout/truncated", "cut off")],
            },
        ],
    ),
    (
        "Dead ends and probes",
        &[
            Spec {
                title: "Dead ends",
                about: "Share of questions whose originals all fail, and share of those that a probe solved.",
                scale: Zero,
                series: &[("rex/dead_end_rate", "dead ends"), ("rex/rescued", "of them rescued")],
            },
            Spec {
                title: "Probes",
                about: "Exact match of the probes, and its moving average, by which probes are kept per original.",
                scale: Zero,
                series: &[("rex/probe_em", "exact match of probes"), ("rex/keep_ratio", "keep ratio κ")],
            },
        ],
    ),
    (
        "Policy correction",
        &[
            Spec {
                title: "Share of probes α",
                about: "Share of probes among the transcripts in the loss.",
                scale: Zero,
                series: &[("rex/alpha", "α")],
            },
            Spec {
                title: "Effective sample size",
                about: "Of how many equally weighted tokens the weighted ones are worth, as a share. 1 is on-policy.",
                scale: Zero,
                series: &[("rex/ess", "effective share")],
            },
            Spec {
                title: "Clipped tokens",
                about: "Share of tokens whose gradient the clip takes, by author.",
                scale: Zero,
                series: &[("rex/clipfrac/model", "model"), ("rex/clipfrac/probe", "exploration prompt")],
            },
            Spec {
                title: "Ratio, model's tokens",
                about: PERCENTILES,
                scale: Free,
                series: &[
                    ("rex/ratio/model/p99", "99 %"),
                    ("rex/ratio/model/p95", "95 %"),
                    ("rex/ratio/model/p50", "median"),
                    ("rex/ratio/model/p5", "5 %"),
                    ("rex/ratio/model/p1", "1 %"),
                ],
            },
            Spec {
                title: "Ratio, exploration prompts",
                about: PERCENTILES,
                scale: Log,
                series: &[
                    ("rex/ratio/probe/p99", "99 %"),
                    ("rex/ratio/probe/p95", "95 %"),
                    ("rex/ratio/probe/p50", "median"),
                    ("rex/ratio/probe/p5", "5 %"),
                    ("rex/ratio/probe/p1", "1 %"),
                ],
            },
        ],
    ),
    (
        "Policy",
        &[
            Spec {
                title: "Entropy",
                about: "Mean surprise of the drawn tokens, in nats.",
                scale: Zero,
                series: &[("actor/entropy", "entropy")],
            },
            Spec {
                title: "Correct transcripts",
                about: "Mean log-probability of a token that the policy wrote in a correct original. Its fall announces a collapse.",
                scale: Free,
                series: &[("rex/correct_log_prob", "log-probability")],
            },
            Spec {
                title: "Policy loss",
                about: "Of the step's updates, on average.",
                scale: Free,
                series: &[("actor/pg_loss", "policy loss")],
            },
            Spec {
                title: "KL to the reference",
                about: "Estimate of the distance from the starting point.",
                scale: Free,
                series: &[("actor/kl_loss", "KL")],
            },
            Spec {
                title: "Gradient norm",
                about: "Before clipping.",
                scale: Zero,
                series: &[("actor/grad_norm", "norm"), ("sft/grad_norm", "norm")],
            },
            Spec {
                title: "Sampling against training",
                about: "Largest difference between a log-probability recorded while sampling and the training forward's: rounding, if all is well.",
                scale: Log,
                series: &[("rollout/logprob_diff_max", "difference")],
            },
        ],
    ),
    (
        "Rollouts",
        &[
            Spec {
                title: "Length",
                about: "Tokens that the policy wrote in a transcript.",
                scale: Zero,
                series: &[
                    ("response_length/mean", "mean"),
                    ("response_length/max", "longest"),
                    ("response_length/min", "shortest"),
                ],
            },
            Spec {
                title: "Searches",
                about: "Of an original.",
                scale: Zero,
                series: &[("rollout/searches", "searches")],
            },
            Spec {
                title: "Time of a step",
                about: "In seconds.",
                scale: Zero,
                series: &[
                    ("timing_s/step", "step"),
                    ("timing_s/gen", "rollouts"),
                    ("timing_s/update_actor", "update"),
                ],
            },
        ],
    ),
];

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
    let Spec { title, about, scale, series } = *spec;
    let series: Vec<Series> = series
        .iter()
        .map(|(name, label)| Series { label: label.to_string(), points: points(run, name) })
        .filter(|series| !series.points.is_empty())
        .collect();
    let values = series.iter().flat_map(|series| &series.points);
    if title.starts_with("KL") && values.clone().all(|(_, value)| *value == 0.0) {
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
