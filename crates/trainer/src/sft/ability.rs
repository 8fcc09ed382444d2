//! What a model can do before reinforcement learning: answer by itself, and after an exploration prompt.

use crate::data::Question;
use crate::environment::Environment;
use crate::error::TrainError;
use crate::evaluate::evaluate;
use crate::metrics::mean;
use crate::sampler::{Draw, Event, Origin, Probing, Rollout};
use rex_learner::Alone;
use rex_model::{Decoder, Sampling};
use rex_rollout::ProbeOn;
use serde::Serialize;
use std::collections::BTreeMap;

/// Exact match by `data_source`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ability {
    pub sources: BTreeMap<String, SourceAbility>,
}

/// Means over the questions of one source.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceAbility {
    pub questions: usize,
    /// Of the likeliest answer.
    pub greedy_em: f64,
    /// Of sampled answers.
    pub sampled_em: f64,
    /// Failed samples that were carried on after an exploration prompt.
    pub probes: usize,
    pub probe_em: f64,
    /// How likely those samples were to begin their exploration prompt by themselves, by its first token.
    pub prompt_probability: f64,
}

/// Answers every question once by the likeliest token and `samples` times by sampling at temperature 1, and probes every
/// sample that ends in a wrong answer.
///
/// # Errors
/// A prompt that is too long, or the retriever's error.
pub fn measure(
    environment: &Environment,
    decoder: &Decoder,
    questions: &[Question],
    samples: usize,
    seed: u64,
    observe: &mut (dyn FnMut(Event<'_>) + Send),
) -> Result<Ability, TrainError> {
    let (greedy, _) = evaluate(&Alone, environment, decoder, questions, Sampling::Greedy, seed, observe)?;
    let tasks = questions.iter().map(|question| environment.task(question)).collect::<Result<Vec<_>, _>>()?;
    let draw = Draw {
        sampling: Sampling::Temperature(1.0),
        group_size: samples,
        probing: Some(Probing { probability: 1.0, on: ProbeOn::WrongAnswer, pool: environment.pool() }),
        seed,
        step: 0,
    };
    let sampled = environment.sampler().sample(decoder, &tasks, draw, observe)?.rollouts;
    let ability = |name: &str| {
        let of = |origin| {
            let ours = move |r: &&Rollout| r.origin == origin && questions[r.task].data_source == name;
            sampled.iter().filter(ours)
        };
        SourceAbility {
            questions: greedy.sources[name].questions,
            greedy_em: greedy.sources[name].em,
            sampled_em: mean(of(Origin::Original).map(|rollout| rollout.scores.em)),
            probes: of(Origin::Probe).count(),
            probe_em: mean(of(Origin::Probe).map(|rollout| rollout.scores.em)),
            prompt_probability: mean(of(Origin::Probe).filter_map(prompt_probability)),
        }
    };
    Ok(Ability { sources: greedy.sources.keys().map(|name| (name.clone(), ability(name))).collect() })
}

fn prompt_probability(probe: &Rollout) -> Option<f64> {
    let first = probe.episode.branch()?.exploration.start;
    Some(f64::from(probe.episode.transcript().log_probs()[first]).exp())
}
