//! The driver of a batch's episodes: many at once over one cache, with search and mixed sampling.
//!
//! An [`Episode`] says what it needs; this file feeds the model what the episode's cache row lacks, draws a token,
//! asks the retriever, and branches a probe off a failed original while the parent's row is still there. Every
//! episode has its own random stream, seeded by (seed, step, question, sample), so what it draws does not depend
//! on who shares the batch.

use crate::sampler::{Draw, Event, Origin, ProbeStart, Rollout, Sampled, Sampler, Task};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_model::{Advance, Decoder, Engine, Job, RowId};
use rex_rollout::{Episode, Need, RetrievalError, Scores};
use std::ops::Range;

/// A batch of tasks, or a part of one, being sampled round by round.
pub struct Generation<'a> {
    sampler: &'a Sampler<'a>,
    tasks: &'a [Task],
    draw: Draw<'a>,
    engine: Engine<'a>,
    admission: Admission<'a>,
    live: Vec<Live>,
    rollouts: Vec<Rollout>,
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

/// The episodes that draw a token in a round.
struct Round {
    /// Positions among the live ones.
    drawing: Vec<usize>,
    /// Tokens that their rows hold.
    starts: Vec<usize>,
    /// The numbers that they draw with.
    uniforms: Vec<f64>,
}

impl<'a> Generation<'a> {
    /// Of the tasks of `part`; where an extra transcript takes a failed original's place, its task is any of all.
    pub(crate) fn new(
        sampler: &'a Sampler<'a>,
        decoder: &'a Decoder,
        tasks: &'a [Task],
        part: Range<usize>,
        draw: Draw<'a>,
    ) -> Self {
        let engine = Engine::new(decoder, draw.sampling);
        let admission = Admission::new(tasks, part, draw);
        Self { sampler, tasks, draw, engine, admission, live: Vec::new(), rollouts: Vec::new() }
    }

    /// One token for every episode under way, after the passages that it waits for. False when all have ended.
    ///
    /// # Errors
    /// The retriever's error, if a search fails.
    pub fn round(&mut self, observe: &mut dyn FnMut(Event<'_>)) -> Result<bool, RetrievalError> {
        let Some(round) = self.prepare(observe)? else { return Ok(false) };
        let advances = self.engine.advance(&round.jobs(&self.live));
        self.take(round, advances, observe);
        Ok(true)
    }

    /// [`round`](Self::round) where the device must not be waited for: in the browser.
    ///
    /// # Errors
    /// As `round`.
    pub async fn round_async(&mut self, observe: &mut dyn FnMut(Event<'_>)) -> Result<bool, RetrievalError> {
        let Some(round) = self.prepare(observe)? else { return Ok(false) };
        let advances = self.engine.advance_async(&round.jobs(&self.live)).await;
        self.take(round, advances, observe);
        Ok(true)
    }

    /// What has ended so far.
    pub fn finish(mut self) -> Sampled {
        self.rollouts.sort_by_key(|r| (r.origin, r.task, r.sample));
        Sampled { rollouts: self.rollouts, tokens: self.engine.tokens() }
    }

    /// Fills the free rows, searches, and says who draws. `None` when all have ended.
    fn prepare(&mut self, observe: &mut dyn FnMut(Event<'_>)) -> Result<Option<Round>, RetrievalError> {
        while self.live.len() < self.sampler.max_rows {
            let Some(next) = self.admission.next(&mut self.engine) else { break };
            self.live.push(next);
        }
        if self.live.is_empty() {
            return Ok(None);
        }
        self.search(observe)?;
        let live = &mut self.live;
        let drawing: Vec<usize> =
            (0..live.len()).filter(|&i| matches!(live[i].episode.need(), Need::Token)).collect();
        let uniforms = drawing.iter().map(|&i| live[i].random.random()).collect();
        let starts = drawing.iter().map(|&i| self.engine.len(live[i].row)).collect();
        Ok(Some(Round { drawing, starts, uniforms }))
    }

    /// Answers every episode that waits for passages, in one call to the retriever.
    fn search(&mut self, observe: &mut dyn FnMut(Event<'_>)) -> Result<(), RetrievalError> {
        let Sampler { retriever, topk, protocol, codec, .. } = *self.sampler;
        let query = |l: &Live| match l.episode.need() {
            Need::Passages { query } => Some(query.to_string()),
            _ => None,
        };
        let queries: Vec<Option<String>> = self.live.iter().map(query).collect();
        let asked: Vec<&str> = queries.iter().flatten().map(String::as_str).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut found = retriever.retrieve(&asked, topk)?.into_iter();
        for (live, query) in self.live.iter_mut().zip(&queries) {
            let Some(query) = query else { continue };
            let passages = found.next().unwrap_or_default();
            live.episode.push_passages(&passages, protocol, codec);
            let Live { sample, episode, .. } = live;
            observe(Event::Passages { sample: *sample, episode, query, passages: &passages });
        }
        Ok(())
    }

    /// Gives every episode its token, sets those that have ended aside, and starts the probes that they earn.
    fn take(&mut self, round: Round, advances: Vec<Advance>, observe: &mut dyn FnMut(Event<'_>)) {
        let Sampler { protocol, codec, .. } = *self.sampler;
        for ((&i, start), advance) in round.drawing.iter().zip(round.starts).zip(advances) {
            let Live { sample, episode, .. } = &mut self.live[i];
            let scored = start + 1..start + 1 + advance.log_probs.len();
            if !scored.is_empty() {
                episode.score(scored, &advance.log_probs);
            }
            let drawn = advance.drawn.expect("a draw was asked for");
            episode.push_token(drawn.id, drawn.log_prob, protocol, codec);
            observe(Event::Token { sample: *sample, episode });
        }

        let live = std::mem::take(&mut self.live);
        let (finished, running): (Vec<_>, _) =
            live.into_iter().partition(|l| matches!(l.episode.need(), Need::Nothing(_)));
        self.live = running;
        for mut ended in finished {
            let scores = Scores::new(&ended.episode.segments(codec), &self.tasks[ended.task].golds);
            observe(Event::Finished { sample: ended.sample, episode: &ended.episode, scores: &scores });
            if let Some(more) = self.explore(&mut ended, &scores) {
                if more.origin == Origin::Probe {
                    let (parent, probe) = (&ended.episode, &more.episode);
                    observe(Event::Branched { sample: ended.sample, parent, probe });
                }
                self.live.push(more);
            }
            self.engine.close(ended.row);
            let Live { task, sample, origin, episode, .. } = ended;
            self.rollouts.push(Rollout { task, sample, origin, episode, scores });
        }
    }

    /// Branches a probe off a failed original, with the chance of METHOD §2, from the parent's cache row; or starts an
    /// extra transcript in its place.
    fn explore(&mut self, parent: &mut Live, scores: &Scores) -> Option<Live> {
        let Self { sampler, tasks, draw, engine, .. } = self;
        let probing = draw.probing?;
        if parent.origin != Origin::Original || scores.is_correct() {
            return None;
        }
        if parent.random.random::<f64>() >= probing.probability {
            return None;
        }
        let exploration = probing.pool.draw(parent.random.random());
        let episode = parent.episode.probe(probing.on, exploration, sampler.protocol, sampler.codec)?;
        if sampler.probe_start == ProbeStart::Scratch {
            return Some(extra(engine, parent, tasks, *draw));
        }
        let prefix = episode.branch().expect("a probe has a branch").prefix;
        let (task, sample, origin) = (parent.task, parent.sample, Origin::Probe);
        // The prefix's last token is fed again: its logits score the first token of the exploration prompt.
        let row = engine.fork(parent.row, prefix - 1);
        Some(Live { task, sample, origin, episode, row, random: stream(*draw, task, sample, origin) })
    }
}

impl Round {
    /// Feeds each what its row lacks.
    fn jobs<'l>(&self, live: &'l [Live]) -> Vec<Job<'l>> {
        let job = |((&i, &start), &uniform): ((&usize, &usize), &f64)| {
            let Live { row, episode, .. } = &live[i];
            // A probe's exploration prompt was drawn by nobody: the policy scores it as it reads it.
            let score = episode.branch().is_some_and(|branch| start < branch.prefix);
            Job { row: *row, tokens: &episode.transcript().ids()[start..], score, draw: Some(uniform) }
        };
        self.drawing.iter().zip(&self.starts).zip(&self.uniforms).map(job).collect()
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
    /// The originals to come, counted over all tasks.
    originals: Range<usize>,
    /// The row that holds all of the current task's prompt but its last token.
    prompt: Option<RowId>,
}

impl<'t> Admission<'t> {
    fn new(tasks: &'t [Task], part: Range<usize>, draw: Draw<'t>) -> Self {
        let originals = part.start * draw.group_size..part.end * draw.group_size;
        Self { tasks, draw, originals, prompt: None }
    }

    fn next(&mut self, engine: &mut Engine<'_>) -> Option<Live> {
        let original = self.originals.next()?;
        let (task, sample) = (original / self.draw.group_size, original % self.draw.group_size);
        let prompt = &self.tasks[task].prompt;
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
