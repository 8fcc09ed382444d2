//! The driver of a step's episodes: many at once over one cache, with search and mixed sampling.
//!
//! An [`Episode`] says what it needs; this file feeds the model what the episode's cache row lacks, draws a token,
//! asks the retriever, and branches a probe off a failed original while the parent's row is still there. Every
//! episode has its own random stream, seeded by (seed, step, question, sample), so what it draws does not depend
//! on who shares the batch.

use crate::error::TrainError;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_model::{Decoder, Engine, Job, RowId, Sampling, TokenCounts};
use rex_rollout::{
    Author, Codec, Episode, ExplorationPool, Need, Passage, ProbeOn, Protocol, Retriever, Scores,
};
use serde::{Deserialize, Serialize};

/// What the episodes of a run share.
pub struct Sampler<'a> {
    pub codec: &'a dyn Codec,
    pub retriever: &'a dyn Retriever,
    pub protocol: &'a Protocol,
    /// Passages a search returns.
    pub topk: usize,
    /// Transcripts decoded at once.
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

/// What happens while sampling, for progress bars and live views.
pub enum Event<'e> {
    Token {
        episode: &'e Episode,
    },
    Passages {
        episode: &'e Episode,
        query: &'e str,
        passages: &'e [Passage],
    },
    /// A probe starts from `parent`.
    Branched {
        parent: &'e Episode,
        probe: &'e Episode,
    },
    Finished {
        episode: &'e Episode,
        scores: &'e Scores,
    },
}

/// The transcripts of a batch and the work they took.
pub struct Sampled {
    /// Originals first, then probes, then extra ones; each ordered by task and sample.
    pub rollouts: Vec<Rollout>,
    pub tokens: TokenCounts,
}

/// An episode under way, with its row of the cache.
struct Live {
    task: usize,
    sample: usize,
    origin: Origin,
    episode: Episode,
    row: RowId,
    random: ChaCha8Rng,
}

impl Sampler<'_> {
    /// Samples `draw.group_size` originals a task, and the probes that branch off the failed ones.
    ///
    /// # Errors
    /// The retriever's error, if a search fails.
    pub fn sample(
        &self,
        decoder: &Decoder,
        tasks: &[Task],
        draw: Draw<'_>,
        observe: &mut dyn FnMut(Event<'_>),
    ) -> Result<Sampled, TrainError> {
        let mut engine = Engine::new(decoder, draw.sampling);
        let mut admission = Admission::new(tasks, draw);
        let mut live: Vec<Live> = Vec::new();
        let mut rollouts = Vec::new();
        loop {
            while live.len() < self.max_rows {
                let Some(next) = admission.next(&mut engine) else { break };
                live.push(next);
            }
            if live.is_empty() {
                break;
            }
            self.search(&mut live, observe)?;
            self.decode(&mut engine, &mut live, observe);

            let (finished, running): (Vec<_>, _) =
                live.into_iter().partition(|l| matches!(l.episode.need(), Need::Nothing(_)));
            live = running;
            for mut ended in finished {
                let scores = Scores::new(&ended.episode.segments(self.codec), &tasks[ended.task].golds);
                observe(Event::Finished { episode: &ended.episode, scores: &scores });
                if let Some(more) = self.explore(&mut engine, &mut ended, &scores, tasks, draw) {
                    if more.origin == Origin::Probe {
                        observe(Event::Branched { parent: &ended.episode, probe: &more.episode });
                    }
                    live.push(more);
                }
                engine.close(ended.row);
                let Live { task, sample, origin, episode, .. } = ended;
                rollouts.push(Rollout { task, sample, origin, episode, scores });
            }
        }
        rollouts.sort_by_key(|r| (r.origin, r.task, r.sample));
        Ok(Sampled { rollouts, tokens: engine.tokens() })
    }

    /// Answers every episode that waits for passages, in one call to the retriever a round.
    fn search(&self, live: &mut [Live], observe: &mut dyn FnMut(Event<'_>)) -> Result<(), TrainError> {
        let query = |l: &Live| match l.episode.need() {
            Need::Passages { query } => Some(query.to_string()),
            _ => None,
        };
        let queries: Vec<Option<String>> = live.iter().map(query).collect();
        let asked: Vec<&str> = queries.iter().flatten().map(String::as_str).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut found = self.retriever.retrieve(&asked, self.topk)?.into_iter();
        for (live, query) in live.iter_mut().zip(&queries) {
            let Some(query) = query else { continue };
            let passages = found.next().unwrap_or_default();
            live.episode.push_passages(&passages, self.protocol, self.codec);
            observe(Event::Passages { episode: &live.episode, query, passages: &passages });
        }
        Ok(())
    }

    /// Feeds every episode that waits for a token what its row lacks, and draws one token each.
    fn decode(&self, engine: &mut Engine<'_>, live: &mut [Live], observe: &mut dyn FnMut(Event<'_>)) {
        let waiting: Vec<usize> =
            (0..live.len()).filter(|&i| matches!(live[i].episode.need(), Need::Token)).collect();
        let uniforms: Vec<f64> = waiting.iter().map(|&i| live[i].random.random()).collect();
        let starts: Vec<usize> = waiting.iter().map(|&i| engine.len(live[i].row)).collect();
        let jobs: Vec<Job<'_>> = (0..waiting.len())
            .map(|j| {
                let Live { row, episode, .. } = &live[waiting[j]];
                // A probe's exploration prompt was drawn by nobody: the policy scores it as it reads it.
                let score = episode.branch().is_some_and(|branch| starts[j] < branch.prefix);
                let tokens = &episode.transcript().ids()[starts[j]..];
                Job { row: *row, tokens, score, draw: Some(uniforms[j]) }
            })
            .collect();
        if jobs.is_empty() {
            return;
        }
        let advances = engine.advance(&jobs);
        for ((&i, start), advance) in waiting.iter().zip(starts).zip(advances) {
            let episode = &mut live[i].episode;
            let scored = start + 1..start + 1 + advance.log_probs.len();
            if !scored.is_empty() {
                episode.score(scored, &advance.log_probs);
            }
            let drawn = advance.drawn.expect("a draw was asked for");
            episode.push_token(drawn.id, drawn.log_prob, self.protocol, self.codec);
            observe(Event::Token { episode });
        }
    }

    /// Branches a probe off a failed original, with the chance of METHOD §2, from the parent's cache row; or starts an
    /// extra transcript in its place.
    fn explore(
        &self,
        engine: &mut Engine<'_>,
        parent: &mut Live,
        scores: &Scores,
        tasks: &[Task],
        draw: Draw<'_>,
    ) -> Option<Live> {
        let probing = draw.probing?;
        if parent.origin != Origin::Original || scores.is_correct() {
            return None;
        }
        if parent.random.random::<f64>() >= probing.probability {
            return None;
        }
        let exploration = probing.pool.draw(parent.random.random());
        let episode = parent.episode.probe(probing.on, exploration, self.protocol, self.codec)?;
        if self.probe_start == ProbeStart::Scratch {
            return Some(extra(engine, parent, tasks, draw));
        }
        let prefix = episode.branch().expect("a probe has a branch").prefix;
        let (task, sample, origin) = (parent.task, parent.sample, Origin::Probe);
        // The prefix's last token is fed again: its logits score the first token of the exploration prompt.
        let row = engine.fork(parent.row, prefix - 1);
        Some(Live { task, sample, origin, episode, row, random: stream(draw, task, sample, origin) })
    }
}

/// A transcript from scratch, of a task that the failed original draws. Its number is unlike any other of that task.
fn extra(engine: &mut Engine<'_>, parent: &mut Live, tasks: &[Task], draw: Draw<'_>) -> Live {
    let task = parent.random.random_range(0..tasks.len());
    let sample = draw.group_size * (1 + parent.task) + parent.sample;
    let (episode, row) = (Episode::new(tasks[task].prompt.clone()), engine.open());
    let origin = Origin::Extra;
    Live { task, sample, origin, episode, row, random: stream(draw, task, sample, origin) }
}

/// Starts the originals in order, computing each task's prompt once for its whole group.
struct Admission<'t> {
    tasks: &'t [Task],
    draw: Draw<'t>,
    /// The next original, counted over all tasks.
    next: usize,
    /// The row that holds all of the current task's prompt but its last token.
    prompt: Option<RowId>,
}

impl<'t> Admission<'t> {
    fn new(tasks: &'t [Task], draw: Draw<'t>) -> Self {
        Self { tasks, draw, next: 0, prompt: None }
    }

    fn next(&mut self, engine: &mut Engine<'_>) -> Option<Live> {
        let (task, sample) = (self.next / self.draw.group_size, self.next % self.draw.group_size);
        let prompt = &self.tasks.get(task)?.prompt;
        self.next += 1;
        let shared = &prompt[..prompt.len() - 1];
        let root = *self.prompt.get_or_insert_with(|| {
            let row = engine.open();
            if !shared.is_empty() {
                engine.advance(&[Job { row, tokens: shared, score: false, draw: None }]);
            }
            row
        });
        let row = engine.fork(root, shared.len());
        if sample + 1 == self.draw.group_size {
            engine.close(root);
            self.prompt = None;
        }
        let origin = Origin::Original;
        let random = stream(self.draw, task, sample, origin);
        Some(Live { task, sample, origin, episode: Episode::new(prompt.clone()), row, random })
    }
}

/// The random stream of one transcript: its coordinates are the key, so no two streams share a state.
fn stream(draw: Draw<'_>, task: usize, sample: usize, origin: Origin) -> ChaCha8Rng {
    let words = [draw.seed, draw.step, task as u64, (sample as u64) << 1 | (origin == Origin::Probe) as u64];
    let mut key = [0; 32];
    for (bytes, word) in key.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    ChaCha8Rng::from_seed(key)
}
