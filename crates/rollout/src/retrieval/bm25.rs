//! BM25 with the constants of Search-R1's Pyserini server, over tantivy's postings.
//!
//! tantivy's own BM25 has `k1 = 1.2` and `b = 0.75` built in. The score is Lucene's:
//!
//! ```text
//! score(q, d) = Σ_t n(t, q) · idf(t) · tf / (tf + k1 · (1 − b + b · |d| / avg))
//! idf(t) = ln(1 + (N − df + 0.5) / (df + 0.5))
//! ```
//!
//! with `|d|` exact, where tantivy and Lucene round it to one byte.

use super::index::Segment;
use super::lengths::Lengths;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Term};

const K1: f32 = 0.9;
const B: f32 = 0.4;

/// Documents are scored in windows of this many, so that the accumulators stay in the CPU's cache.
const WINDOW: usize = 4096;

/// The `k` best documents for distinct terms and their number of occurrences in the query, best first.
pub(super) fn top(segments: &[Segment], terms: &[(Term, u32)], k: usize) -> tantivy::Result<Vec<Hit>> {
    let mut weighted = Vec::with_capacity(terms.len());
    for (term, count) in terms {
        weighted.push((term, *count as f32 * idf(segments, term)?));
    }
    // The sum of a document is made in this order, however the index is cut into segments.
    weighted.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let norm = Norm::of(segments);

    let mut best = Best { k, hits: BinaryHeap::new() };
    for (ordinal, segment) in segments.iter().enumerate() {
        let mut lists = Vec::with_capacity(weighted.len());
        for (term, weight) in &weighted {
            if let Some(postings) = segment.terms.read_postings(term, IndexRecordOption::WithFreqs)? {
                lists.push(List { postings, weight: *weight });
            }
        }
        Union::new(lists, segment, norm).collect(&mut best, |doc, score| {
            let position = segment.positions.get_val(doc);
            Hit { score, position, segment: ordinal, doc }
        });
    }
    Ok(best.hits.into_sorted_vec().into_iter().map(|Reverse(hit)| hit).collect())
}

/// A scored document; greater is better: the higher score, then the earlier place in the corpus.
pub(super) struct Hit {
    pub(super) score: f32,
    position: u64,
    pub(super) segment: usize,
    pub(super) doc: DocId,
}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.position.cmp(&self.position))
    }
}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Hit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Hit {}

struct Best {
    k: usize,
    hits: BinaryHeap<Reverse<Hit>>,
}

impl Best {
    /// What scores less cannot enter.
    fn threshold(&self) -> f32 {
        let full = self.hits.len() >= self.k;
        self.hits.peek().filter(|_| full).map_or(0.0, |Reverse(worst)| worst.score)
    }

    fn offer(&mut self, hit: Hit) {
        self.hits.push(Reverse(hit));
        if self.hits.len() > self.k {
            self.hits.pop();
        }
    }
}

/// The documents of a segment that hold a term, with their frequency.
struct List {
    postings: SegmentPostings,
    weight: f32,
}

/// The documents of a segment that hold any term of the query.
///
/// MaxScore (Turtle and Flood, 1995) passes over those that cannot be among the best: the weight of a term bounds what
/// it adds to a score, so once `k` documents are better than the last terms together, a document that holds nothing
/// but those need not be looked at.
struct Union<'a> {
    /// By falling weight.
    lists: Vec<List>,
    /// The most that the lists from this one on can add to a score; one longer than `lists`.
    rest: Vec<f32>,
    segment: &'a Segment,
    norm: Norm,
}

impl<'a> Union<'a> {
    fn new(lists: Vec<List>, segment: &'a Segment, norm: Norm) -> Self {
        /// The bound must hold for sums rounded in any order.
        const SLACK: f32 = 1.0001;
        let mut rest = vec![0.0; lists.len() + 1];
        for (index, list) in lists.iter().enumerate().rev() {
            rest[index] = rest[index + 1] + list.weight * SLACK;
        }
        Self { lists, rest, segment, norm }
    }

    fn collect(mut self, best: &mut Best, hit: impl Fn(DocId, f32) -> Hit) {
        let mut scores = [0.0f32; WINDOW];
        loop {
            let threshold = best.threshold();
            let essential = self.rest.iter().position(|rest| *rest < threshold).unwrap_or(self.lists.len());
            let start = self.lists[..essential].iter().map(|list| list.postings.doc()).min();
            let Some(start) = start.filter(|doc| *doc < self.segment.passages) else {
                return;
            };
            let end = self.segment.passages.min(start.saturating_add(WINDOW as DocId));
            for list in &mut self.lists[..essential] {
                while list.postings.doc() < end {
                    scores[(list.postings.doc() - start) as usize] +=
                        list.score(&self.segment.lengths, self.norm);
                    list.postings.advance();
                }
            }
            for (doc, score) in (start..end).zip(&mut scores) {
                let score = std::mem::take(score);
                if score > 0.0
                    && let Some(score) = self.complete(doc, score, essential, best.threshold())
                {
                    best.offer(hit(doc, score));
                }
            }
        }
    }

    /// Adds what the lists from `first` on give to a document; `None` as soon as it cannot reach the threshold.
    fn complete(&mut self, doc: DocId, mut score: f32, first: usize, threshold: f32) -> Option<f32> {
        for (list, rest) in self.lists[first..].iter_mut().zip(&self.rest[first..]) {
            if score + rest < threshold {
                return None;
            }
            if list.postings.doc() < doc {
                list.postings.seek(doc);
            }
            if list.postings.doc() == doc {
                score += list.score(&self.segment.lengths, self.norm);
            }
        }
        (score >= threshold).then_some(score)
    }
}

impl List {
    /// What this term gives to the document that the list stands at.
    fn score(&self, lengths: &Lengths, norm: Norm) -> f32 {
        let frequency = self.postings.term_freq() as f32;
        self.weight * frequency / (frequency + norm.at(lengths.get(self.postings.doc())))
    }
}

fn idf(segments: &[Segment], term: &Term) -> tantivy::Result<f32> {
    let mut holders = 0;
    for segment in segments {
        holders += u64::from(segment.terms.doc_freq(term)?);
    }
    let others = documents(segments).saturating_sub(holders);
    Ok((1.0 + (others as f64 + 0.5) / (holders as f64 + 0.5)).ln() as f32)
}

/// `k1 · (1 − b + b · |d| / avg)`, as a line in `|d|`.
#[derive(Clone, Copy)]
struct Norm {
    base: f32,
    slope: f32,
}

impl Norm {
    fn of(segments: &[Segment]) -> Self {
        let tokens: u64 = segments.iter().map(|segment| segment.terms.total_num_tokens()).sum();
        let average = tokens.max(1) as f32 / documents(segments).max(1) as f32;
        Self { base: K1 * (1.0 - B), slope: K1 * B / average }
    }

    fn at(self, length: u32) -> f32 {
        self.base + self.slope * length as f32
    }
}

fn documents(segments: &[Segment]) -> u64 {
    segments.iter().map(Segment::len).sum()
}
