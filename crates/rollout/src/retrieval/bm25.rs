//! BM25 with the constants of Search-R1's Pyserini server, over tantivy's postings.
//!
//! tantivy's own BM25 has `k1 = 1.2` and `b = 0.75` built in. The score is Lucene's:
//!
//! ```text
//! score(q, d) = Σ_t n(t, q) · idf(t) · tf / (tf + k1 · (1 − b + b · |d| / avg))
//! idf(t) = ln(1 + (N − df + 0.5) / (df + 0.5))
//! ```
//!
//! with `|d|` rounded to one byte, as tantivy and Lucene store it.

use super::index::Segment;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, Term};

const K1: f32 = 0.9;
const B: f32 = 0.4;

/// Documents are scored in windows of this many, so that the accumulators stay in the CPU's cache.
const WINDOW: usize = 4096;

/// A scored document; greater is better: the higher score, then the earlier place in the corpus.
#[derive(Clone, Copy)]
pub(super) struct Hit {
    pub(super) score: f32,
    pub(super) position: u64,
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

/// The `k` best documents for distinct terms and their number of occurrences in the query, best first.
pub(super) fn top(segments: &[Segment], terms: &[(Term, u32)], k: usize) -> tantivy::Result<Vec<Hit>> {
    let weights = terms
        .iter()
        .map(|(term, count)| Ok(*count as f32 * idf(segments, term)?))
        .collect::<tantivy::Result<Vec<f32>>>()?;
    let length_norms = length_norms(segments);

    let mut best = BinaryHeap::with_capacity(k.min(WINDOW) + 1);
    for (ordinal, segment) in segments.iter().enumerate() {
        let mut postings = Vec::new();
        for ((term, _), &weight) in terms.iter().zip(&weights) {
            if let Some(list) = segment.terms.read_postings(term, IndexRecordOption::WithFreqs)? {
                postings.push((list, weight));
            }
        }
        for_each_scored(postings, &segment.lengths, &length_norms, |doc, score| {
            if best.len() == k && best.peek().is_some_and(|Reverse(worst): &Reverse<Hit>| score < worst.score)
            {
                return;
            }
            best.push(Reverse(Hit {
                score,
                position: segment.positions.get_val(doc),
                segment: ordinal,
                doc,
            }));
            if best.len() > k {
                best.pop();
            }
        });
    }
    Ok(best.into_sorted_vec().into_iter().map(|Reverse(hit)| hit).collect())
}

/// Calls `visit` for every document that holds a term, in order. The terms of a document are added up in the order of
/// `postings`, so that the sum does not depend on how the index was cut into segments.
fn for_each_scored(
    mut postings: Vec<(SegmentPostings, f32)>,
    lengths: &FieldNormReader,
    length_norms: &[f32; 256],
    mut visit: impl FnMut(DocId, f32),
) {
    let mut scores = [0.0f32; WINDOW];
    loop {
        postings.retain(|(list, _)| list.doc() < lengths.num_docs());
        let Some(start) = postings.iter().map(|(list, _)| list.doc()).min() else { return };
        let end = lengths.num_docs().min(start.saturating_add(WINDOW as DocId));
        for (list, weight) in &mut postings {
            while list.doc() < end {
                let frequency = list.term_freq() as f32;
                let norm = length_norms[usize::from(lengths.fieldnorm_id(list.doc()))];
                scores[(list.doc() - start) as usize] += *weight * frequency / (frequency + norm);
                list.advance();
            }
        }
        for (doc, score) in (start..end).zip(&mut scores) {
            if *score > 0.0 {
                visit(doc, std::mem::take(score));
            }
        }
    }
}

fn idf(segments: &[Segment], term: &Term) -> tantivy::Result<f32> {
    let mut frequency = 0;
    for segment in segments {
        frequency += u64::from(segment.terms.doc_freq(term)?);
    }
    let documents: u64 = segments.iter().map(Segment::len).sum();
    let absent = documents.saturating_sub(frequency);
    Ok((1.0 + (absent as f64 + 0.5) / (frequency as f64 + 0.5)).ln() as f32)
}

/// `k1 · (1 − b + b · |d| / avg)` for each of the 256 lengths that tantivy distinguishes.
fn length_norms(segments: &[Segment]) -> [f32; 256] {
    let tokens: u64 = segments.iter().map(|segment| segment.terms.total_num_tokens()).sum();
    let documents: u64 = segments.iter().map(Segment::len).sum();
    let average = tokens.max(1) as f32 / documents.max(1) as f32;
    std::array::from_fn(|id| {
        let length = FieldNormReader::id_to_fieldnorm(id as u8) as f32;
        K1 * (1.0 - B + B * length / average)
    })
}
