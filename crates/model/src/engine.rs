//! Batched generation: many rows that are prefilled, forced and decoded in shared forward passes.

use burn::tensor::{DType, Tensor, TensorData};

use crate::cache::{Cache, RowId};
use crate::decoder::Decoder;
use crate::log_probs::{ids, padded};
use crate::sampling::Sampling;
use serde::{Deserialize, Serialize};

/// Generates with a decoder (on a device without automatic differentiation) and a key/value [`Cache`].
///
/// A row is a sequence of tokens. [`advance`](Self::advance) feeds each row the tokens that its cache lacks and draws its
/// next token; the drawn token is not in the cache until it is fed.
pub struct Engine<'m> {
    decoder: &'m Decoder,
    sampling: Sampling,
    cache: Cache,
    tokens: TokenCounts,
}

/// What one row asks of an [`Engine::advance`].
#[derive(Debug, Clone, Copy)]
pub struct Job<'t> {
    pub row: RowId,
    /// Not yet in the cache; at least one.
    pub tokens: &'t [u32],
    /// Asks for the log-probabilities of `tokens[1..]`.
    pub score: bool,
    /// A uniform number in `[0, 1)` to draw the next token with.
    pub draw: Option<f64>,
}

/// What a [`Job`] gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Advance {
    /// Of `tokens[1..]` at the sampling temperature; empty if not asked for.
    pub log_probs: Vec<f32>,
    pub drawn: Option<Drawn>,
}

/// A token and the log-probability under which it was drawn; NaN where the model's logits were not finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    pub id: u32,
    pub log_prob: f32,
}

/// Tokens fed since the engine was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCounts {
    /// In passes over several tokens a row.
    pub prefilled: u64,
    /// One a row, to draw the next.
    pub decoded: u64,
}

/// Tokens of one row that a pass takes at most.
const CHUNK: usize = 256;
/// Tokens, padding included, that a pass takes at most.
pub(crate) const BUDGET: usize = 1024;

/// The part of a job that one pass feeds.
struct Feed<'t> {
    job: usize,
    row: RowId,
    tokens: &'t [u32],
}

/// The results of an advance, still on the device.
struct Pending {
    /// Log-probabilities in the order of `scored`, then `[id, log-probability]` in the order of `drawn`.
    values: Vec<Tensor<1>>,
    /// The job of every scored token.
    scored: Vec<usize>,
    drawn: Vec<usize>,
}

impl<'m> Engine<'m> {
    /// # Panics
    /// If the temperature is not positive, or the decoder records gradients.
    pub fn new(decoder: &'m Decoder, sampling: Sampling) -> Self {
        let temperature = sampling.temperature();
        assert!(temperature > 0.0, "temperature {temperature}: sample at a positive one, or greedily");
        assert!(
            !decoder.device().is_autodiff(),
            "generate with `decoder.frozen()`: a cache would keep every step's graph"
        );
        Self { decoder, sampling, cache: Cache::new(decoder), tokens: TokenCounts::default() }
    }

    /// Feeds every job's tokens and draws where asked: rows with many tokens first, together where their lengths are
    /// alike, then one shared pass for all that draw. Results come in the order of the jobs.
    ///
    /// # Panics
    /// If a job has no tokens, or a row has two jobs or is closed.
    pub fn advance(&mut self, jobs: &[Job<'_>]) -> Vec<Advance> {
        let pending = self.submit(jobs);
        let values = pending.on_device().map(Tensor::into_data);
        pending.read(jobs.len(), values)
    }

    /// [`advance`](Self::advance) where the device must not be waited for: in the browser.
    ///
    /// # Panics
    /// As `advance`; and if the device fails.
    pub async fn advance_async(&mut self, jobs: &[Job<'_>]) -> Vec<Advance> {
        let pending = self.submit(jobs);
        let values = match pending.on_device() {
            Some(values) => Some(values.into_data_async().await.expect("the device gives its results")),
            None => None,
        };
        pending.read(jobs.len(), values)
    }

    /// A new row without tokens.
    pub fn open(&mut self) -> RowId {
        self.cache.open()
    }

    /// Forgets a row.
    pub fn close(&mut self, row: RowId) {
        self.cache.close(row);
    }

    /// A new row that holds the first `len` tokens of `row`.
    pub fn fork(&mut self, row: RowId, len: usize) -> RowId {
        self.cache.fork(row, len)
    }

    /// Tokens that the row's cache holds.
    pub fn len(&self, row: RowId) -> usize {
        self.cache.len(row)
    }

    /// Tokens fed so far.
    pub fn tokens(&self) -> TokenCounts {
        self.tokens
    }

    fn submit(&mut self, jobs: &[Job<'_>]) -> Pending {
        let mut pending = Pending { values: Vec::new(), scored: Vec::new(), drawn: Vec::new() };
        let mut fed: Vec<usize> = vec![0; jobs.len()];
        while let Some((width, mut feeds)) = next_prefill(jobs, &fed) {
            for feed in &feeds {
                fed[feed.job] += feed.tokens.len();
                self.tokens.prefilled += feed.tokens.len() as u64;
            }
            let hidden = self.pass(&mut feeds, width);
            self.score(jobs, &fed, &feeds, hidden, &mut pending);
        }

        let drawing = jobs.iter().enumerate().filter(|(_, job)| job.draw.is_some());
        let mut feeds: Vec<Feed<'_>> = drawing
            .map(|(job, Job { row, tokens, .. })| Feed {
                job,
                row: *row,
                tokens: &tokens[tokens.len() - 1..],
            })
            .collect();
        if !feeds.is_empty() {
            self.tokens.decoded += feeds.len() as u64;
            let hidden = self.pass(&mut feeds, 1);
            pending.drawn = feeds.iter().map(|feed| feed.job).collect();
            let uniforms: Vec<f64> = pending.drawn.iter().filter_map(|job| jobs[*job].draw).collect();
            let [rows, _, features] = hidden.dims();
            let hidden = hidden.reshape([rows, features]);
            for chunk in self.decoder.chunks(rows) {
                let logits = self.decoder.logits(hidden.clone().slice([chunk.clone()]));
                let drawn = self.sampling.draw(logits, &uniforms[chunk.clone()]);
                pending.values.push(drawn.reshape([2 * chunk.len()]));
            }
        }
        pending
    }

    /// One forward pass, `[rows, width, hidden]`; the feeds are put into the order of its rows.
    fn pass(&mut self, feeds: &mut [Feed<'_>], width: usize) -> Tensor<3> {
        self.cache.lead(feeds, |feed| feed.row);
        let rows: Vec<&[u32]> = feeds.iter().map(|feed| feed.tokens).collect();
        let lens: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        let ids = padded(&rows, width, &self.decoder.device());
        self.decoder.forward(ids, Some(self.cache.extend(&lens, width)))
    }

    /// Log-probabilities of the tokens that follow those just fed, for the jobs that ask for them.
    fn score(
        &self,
        jobs: &[Job<'_>],
        fed: &[usize],
        feeds: &[Feed<'_>],
        hidden: Tensor<3>,
        pending: &mut Pending,
    ) {
        let [rows, width, features] = hidden.dims();
        let (mut places, mut targets) = (Vec::new(), Vec::new());
        for (row, feed) in feeds.iter().enumerate().filter(|(_, feed)| jobs[feed.job].score) {
            let following = &jobs[feed.job].tokens[fed[feed.job] - feed.tokens.len() + 1..];
            for (t, target) in following.iter().take(feed.tokens.len()).enumerate() {
                places.push((row * width + t) as i32);
                targets.push(*target);
                pending.scored.push(feed.job);
            }
        }
        if !targets.is_empty() {
            let hidden = hidden.reshape([rows * width, features]);
            let hidden = hidden.select(0, ids(&places, &self.decoder.device()));
            let temperature = self.sampling.temperature();
            pending.values.push(self.decoder.token_log_probs(hidden, &targets, temperature));
        }
    }
}

/// The next tokens to feed before the draw: the longest remainder and those that are at least half as long, since
/// shorter ones would be mostly padding. `None` when every job has only the token left that it draws after.
fn next_prefill<'t>(jobs: &[Job<'t>], fed: &[usize]) -> Option<(usize, Vec<Feed<'t>>)> {
    let mut waiting: Vec<Feed<'t>> = Vec::new();
    for (job, (Job { row, tokens, draw, .. }, fed)) in jobs.iter().zip(fed).enumerate() {
        assert!(!tokens.is_empty(), "job {job} has no tokens");
        let end = tokens.len() - draw.map_or(0, |_| 1);
        if *fed < end {
            waiting.push(Feed { job, row: *row, tokens: &tokens[*fed..end.min(fed + CHUNK)] });
        }
    }
    waiting.sort_by_key(|feed| std::cmp::Reverse(feed.tokens.len()));
    let width = waiting.first()?.tokens.len();
    let rows = (BUDGET / width).max(1);
    let alike = waiting.iter().take(rows).take_while(|feed| 2 * feed.tokens.len() >= width).count();
    waiting.truncate(alike);
    Some((width, waiting))
}

impl Pending {
    /// Everything in one tensor, so that the host waits once.
    fn on_device(&self) -> Option<Tensor<1>> {
        (!self.values.is_empty()).then(|| Tensor::cat(self.values.clone(), 0).cast(DType::F32))
    }

    fn read(&self, jobs: usize, values: Option<TensorData>) -> Vec<Advance> {
        let mut advances = vec![Advance { log_probs: Vec::new(), drawn: None }; jobs];
        let values = values.map_or(Vec::new(), |data| data.try_to_vec::<f32>().expect("results are f32"));
        let (scores, draws) = values.split_at(self.scored.len());
        for (job, log_prob) in self.scored.iter().zip(scores) {
            advances[*job].log_probs.push(*log_prob);
        }
        for (job, drawn) in self.drawn.iter().zip(draws.chunks_exact(2)) {
            advances[*job].drawn = Some(Drawn { id: drawn[0] as u32, log_prob: drawn[1] });
        }
        advances
    }
}
