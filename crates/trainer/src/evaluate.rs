//! Evaluation: one transcript a question, scored by source.

use crate::data::Question;
use crate::environment::Environment;
use crate::error::TrainError;
use crate::metrics::{Metrics, mean};
use crate::sampler::{Draw, Event, Rollout};
use crate::team;
use rex_learner::Team;
use rex_model::{Decoder, Sampling};
use serde::Serialize;
use std::collections::BTreeMap;

/// Means over the questions of one source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceScores {
    pub questions: usize,
    pub em: f64,
    pub sub_em: f64,
    pub f1: f64,
    /// Exact match after Unicode folding; reported, never trained on.
    pub folded_em: f64,
    pub format: f64,
    /// Share of questions that got an answer at all.
    pub answered: f64,
    pub searches: f64,
    /// Tokens that the model wrote.
    pub response_length: f64,
}

/// Scores by `data_source`, and over all questions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    pub sources: BTreeMap<String, SourceScores>,
    pub overall: SourceScores,
}

/// Answers every question once, by all processes together, and returns the scores with the transcripts.
///
/// # Errors
/// A prompt that is too long, or the retriever's error.
pub fn evaluate(
    team: &dyn Team,
    environment: &Environment,
    decoder: &Decoder,
    questions: &[Question],
    sampling: Sampling,
    seed: u64,
    observe: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<(Evaluation, Vec<Rollout>), TrainError> {
    let tasks = questions.iter().map(|q| environment.task(q)).collect::<Result<Vec<_>, _>>()?;
    let draw = Draw { sampling, group_size: 1, probing: None, seed, step: 0 };
    let sampled = team::sample(team, &environment.sampler(), decoder, &tasks, draw, observe)?;
    let mut by_source: BTreeMap<&str, Vec<&Rollout>> = BTreeMap::new();
    for rollout in &sampled.rollouts {
        by_source.entry(&questions[rollout.task].data_source).or_default().push(rollout);
    }
    let sources =
        by_source.into_iter().map(|(name, rows)| (name.to_string(), SourceScores::of(&rows))).collect();
    let overall = SourceScores::of(&sampled.rollouts.iter().collect::<Vec<_>>());
    Ok((Evaluation { sources, overall }, sampled.rollouts))
}

/// The rollouts of the first `count` questions of each source: the same ones at every evaluation.
pub fn first_of_each_source<'r>(
    rollouts: &'r [Rollout],
    questions: &[Question],
    count: usize,
) -> Vec<&'r Rollout> {
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    let mut take = |rollout: &&Rollout| {
        let taken = taken.entry(&questions[rollout.task].data_source).or_default();
        *taken += 1;
        *taken <= count
    };
    rollouts.iter().filter(|rollout| take(rollout)).collect()
}

impl SourceScores {
    fn of(rollouts: &[&Rollout]) -> Self {
        let of = |value: fn(&Rollout) -> f64| mean(rollouts.iter().map(|r| value(r)));
        Self {
            questions: rollouts.len(),
            em: of(|r| r.scores.em),
            sub_em: of(|r| r.scores.sub_em),
            f1: of(|r| r.scores.f1),
            folded_em: of(|r| r.scores.folded_em),
            format: of(|r| r.scores.format),
            answered: of(|r| r.episode.answer().is_some() as u8 as f64),
            searches: of(|r| r.episode.searches() as f64),
            response_length: of(|r| r.written() as f64),
        }
    }
}

/// The source that stands for all questions.
pub const ALL: &str = "all";

/// The name of a source's exact match in `metrics.jsonl`; verl's.
pub fn em_name(source: &str) -> String {
    format!("val-core/{source}/em/mean@1")
}

/// The source whose exact match has this name.
pub fn source_of_em(name: &str) -> Option<&str> {
    name.strip_prefix("val-core/")?.strip_suffix("/em/mean@1")
}

impl Evaluation {
    /// verl's names: `val-core/<source>/em/mean@1`, the rest under `val-aux`.
    pub fn metrics(&self, step: usize) -> Metrics {
        let mut metrics = Metrics::new(step);
        for (source, scores) in
            self.sources.iter().map(|(name, s)| (name.as_str(), s)).chain([(ALL, &self.overall)])
        {
            metrics.set(em_name(source), scores.em);
            for (name, value) in [
                ("sub_em", scores.sub_em),
                ("f1", scores.f1),
                ("folded_em", scores.folded_em),
                ("format", scores.format),
                ("answered", scores.answered),
                ("searches", scores.searches),
                ("response_length", scores.response_length),
            ] {
                metrics.set(format!("val-aux/{source}/{name}/mean@1"), value);
            }
        }
        metrics
    }
}
