//! What is sampled, with what, and what comes of it.

use crate::generation::Generation;
use rayon::prelude::*;
use rex_model::{Decoder, Sampling, TokenCounts};
use rex_rollout::{
    Author, Codec, Episode, ExplorationPool, Passage, ProbeOn, Protocol, RetrievalError, Retriever, Scores,
};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What the episodes of a run share.
pub struct Sampler<'a> {
    pub codec: &'a dyn Codec,
    pub retriever: &'a dyn Retriever,
    pub protocol: &'a Protocol,
    /// Passages a search returns.
    pub topk: usize,
    /// Transcripts decoded at once; with a small decoder, by one thread.
    pub max_rows: usize,
    pub probe_start: ProbeStart,
}

/// Where mixed sampling starts the transcript that a failed original earns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeStart {
    /// At the failure, behind an exploration prompt: a probe.
    #[default]
    DeadEnd,
    /// From scratch, on a question of the step drawn at random: uniform over-sampling, which probes are compared with.
    Scratch,
}

/// Mixed sampling, where it is on.
#[derive(Clone, Copy)]
pub struct Probing<'a> {
    /// Chance that a failed original is probed.
    pub probability: f64,
    pub on: ProbeOn,
    pub pool: &'a ExplorationPool,
}

/// One question to answer.
pub struct Task {
    pub prompt: Vec<u32>,
    pub golds: Vec<String>,
}

/// How a batch of tasks is sampled.
#[derive(Clone, Copy)]
pub struct Draw<'a> {
    pub sampling: Sampling,
    /// Originals a task (`G`).
    pub group_size: usize,
    pub probing: Option<Probing<'a>>,
    /// Seed of the run and number of the step: with task and sample they name a random stream.
    pub seed: u64,
    pub step: u64,
}

/// Where a transcript comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    Original,
    Probe,
    /// Drawn in a probe's place, from scratch ([`ProbeStart::Scratch`]).
    Extra,
}

/// One finished transcript.
#[derive(Serialize, Deserialize)]
pub struct Rollout {
    /// Position of its task.
    pub task: usize,
    /// Number among its task's originals; a probe has its parent's, an extra one no original's.
    pub sample: usize,
    pub origin: Origin,
    pub episode: Episode,
    pub scores: Scores,
}

impl Rollout {
    /// Tokens that the policy wrote.
    pub fn written(&self) -> usize {
        let authors = self.episode.transcript().authors();
        authors.iter().filter(|&&author| author == Author::Model).count()
    }
}

/// What happens while sampling, for progress bars and live views. `sample` is that of [`Rollout`]; a probe has a branch.
pub enum Event<'e> {
    Token {
        sample: usize,
        episode: &'e Episode,
    },
    Passages {
        sample: usize,
        episode: &'e Episode,
        query: &'e str,
        passages: &'e [Passage],
    },
    /// A probe starts from `parent`.
    Branched {
        sample: usize,
        parent: &'e Episode,
        probe: &'e Episode,
    },
    Finished {
        sample: usize,
        episode: &'e Episode,
        scores: &'e Scores,
    },
}

/// The transcripts of a batch and the work they took.
#[derive(Serialize, Deserialize)]
pub struct Sampled {
    /// Originals first, then probes, then extra ones; each ordered by task and sample.
    pub rollouts: Vec<Rollout>,
    pub tokens: TokenCounts,
}

impl Sampled {
    /// The parts of a batch put together.
    pub fn of(parts: Vec<Self>) -> Self {
        let mut all = Self { rollouts: Vec::new(), tokens: TokenCounts::default() };
        for part in parts {
            all.rollouts.extend(part.rollouts);
            all.tokens.prefilled += part.tokens.prefilled;
            all.tokens.decoded += part.tokens.decoded;
        }
        all.rollouts.sort_by_key(|r| (r.origin, r.task, r.sample));
        all
    }
}

impl Sampler<'_> {
    /// Samples `draw.group_size` originals a task, and the probes that branch off the failed ones. With a small decoder the
    /// tasks are sampled in parts of about `max_rows` originals, side by side; the number of threads decides neither what is
    /// in a part nor, therefore, what is drawn.
    ///
    /// # Errors
    /// The retriever's error, if a search fails.
    pub fn sample(
        &self,
        decoder: &Decoder,
        tasks: &[Task],
        draw: Draw<'_>,
        observe: &mut (dyn FnMut(Event<'_>) + Send),
    ) -> Result<Sampled, RetrievalError> {
        self.sample_share(decoder, tasks, 0..tasks.len(), draw, observe)
    }

    /// [`sample`](Self::sample) for the tasks of `share` alone: what is drawn for them is the same.
    ///
    /// # Errors
    /// As `sample`.
    pub fn sample_share(
        &self,
        decoder: &Decoder,
        tasks: &[Task],
        share: Range<usize>,
        draw: Draw<'_>,
        observe: &mut (dyn FnMut(Event<'_>) + Send),
    ) -> Result<Sampled, RetrievalError> {
        let observe = Mutex::new(observe);
        let sample = |part: Range<usize>| {
            let mut generation = Generation::new(self, decoder, tasks, part, draw);
            let mut observe = |event: Event<'_>| {
                let mut observe = observe.lock().unwrap_or_else(PoisonError::into_inner);
                (*observe)(event);
            };
            while generation.round(&mut observe)? {}
            Ok(generation.finish())
        };
        if !decoder.is_small() {
            return sample(share);
        }
        let parts = (tasks.len() * draw.group_size).div_ceil(self.max_rows).max(1);
        let size = tasks.len().div_ceil(parts).max(1);
        let parts: Vec<Range<usize>> =
            share.clone().step_by(size).map(|start| start..share.end.min(start + size)).collect();
        let sampled = parts.into_par_iter().with_max_len(1).map(sample).collect::<Result<Vec<_>, _>>()?;
        Ok(Sampled::of(sampled))
    }

    /// The same in one part, to be driven a round at a time.
    pub fn start<'a>(&'a self, decoder: &'a Decoder, tasks: &'a [Task], draw: Draw<'a>) -> Generation<'a> {
        Generation::new(self, decoder, tasks, 0..tasks.len(), draw)
    }
}
