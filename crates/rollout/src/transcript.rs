//! The record of an episode: every token with its author and the log-probability under which it was drawn.

use crate::codec::{Codec, TurnText};
use serde::{Deserialize, Serialize};
use std::ops::{Range, RangeFrom};

/// Who wrote a token. The numbers are the official code's `component_mask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Author {
    /// Template and question.
    Prompt = 0,
    /// Drawn by the policy.
    Model = 1,
    /// The environment, about a turn without an action.
    Notice = 3,
    /// The retriever.
    Information = 4,
    /// An exploration prompt, drawn by the probe policy.
    Probe = 5,
}

impl Author {
    /// Whether the loss covers this author's tokens: the policy's own and the probe policy's.
    pub fn in_loss(self) -> bool {
        matches!(self, Author::Model | Author::Probe)
    }
}

/// Token ids, authors and log-probabilities, always of equal length: they are appended together, here and nowhere else.
///
/// Serialised as `{ids, log_probs, segments}` with `segments` the runs `[author, tokens]` in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "Runs", try_from = "Runs")]
pub struct Transcript {
    ids: Vec<u32>,
    authors: Vec<Author>,
    log_probs: Vec<f32>,
}

impl Transcript {
    /// A prompt, and nothing drawn yet.
    pub fn new(prompt: Vec<u32>) -> Self {
        let len = prompt.len();
        Self { ids: prompt, authors: vec![Author::Prompt; len], log_probs: vec![0.0; len] }
    }

    /// Appends one token. `log_prob` is stored as it is, finite or not; 0 where nobody drew.
    pub fn push(&mut self, id: u32, author: Author, log_prob: f32) {
        self.ids.push(id);
        self.authors.push(author);
        self.log_probs.push(log_prob);
    }

    /// Appends tokens that nobody drew.
    pub fn extend(&mut self, ids: &[u32], author: Author) {
        ids.iter().for_each(|&id| self.push(id, author, 0.0));
    }

    /// The first `len` tokens as a transcript of their own.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn prefix(&self, len: usize) -> Self {
        Self {
            ids: self.ids[..len].to_vec(),
            authors: self.authors[..len].to_vec(),
            log_probs: self.log_probs[..len].to_vec(),
        }
    }

    /// Sets the log-probabilities of tokens that were forced and scored afterwards.
    ///
    /// # Panics
    /// When `range` lies outside the transcript or `log_probs` has another length.
    pub fn score(&mut self, range: Range<usize>, log_probs: &[f32]) {
        self.log_probs[range].copy_from_slice(log_probs);
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub fn authors(&self) -> &[Author] {
        &self.authors
    }

    pub fn log_probs(&self) -> &[f32] {
        &self.log_probs
    }

    /// Tokens before the first that anybody wrote.
    pub fn prompt_len(&self) -> usize {
        self.authors.iter().take_while(|&&author| author == Author::Prompt).count()
    }

    /// The text that each token of `tokens` adds to what stands before it.
    pub fn pieces(&self, tokens: RangeFrom<usize>, codec: &dyn Codec) -> Vec<String> {
        let context = tokens.start.min(CONTEXT);
        let ids = &self.ids[tokens.start - context..];
        let mut text = TurnText::default();
        for &id in ids {
            text.push(id, codec);
        }
        let piece = |t: usize| text.text_of(t + 1)[text.text_of(t).len()..].to_string();
        (context..ids.len()).map(piece).collect()
    }

    /// The maximal runs of one author, in order.
    pub fn segments(&self) -> impl Iterator<Item = (Author, Range<usize>)> {
        let mut start = 0;
        self.authors.chunk_by(|a, b| a == b).map(move |run| {
            let range = start..start + run.len();
            start = range.end;
            (run[0], range)
        })
    }
}

/// Tokens that are decoded with the first piece: what a token adds can depend on the ones before it.
const CONTEXT: usize = 8;

/// The text of one author's run, as scores and reports see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub author: Author,
    pub text: String,
}

/// [`Transcript`] on disk. A log-probability that is not finite is `null` in JSON and NaN when read back.
#[derive(Serialize, Deserialize)]
struct Runs {
    ids: Vec<u32>,
    log_probs: Vec<Option<f32>>,
    segments: Vec<(Author, usize)>,
}

impl From<Transcript> for Runs {
    fn from(transcript: Transcript) -> Self {
        let segments = transcript.segments().map(|(author, range)| (author, range.len())).collect();
        let log_probs = transcript.log_probs.iter().map(|&p| p.is_finite().then_some(p)).collect();
        Self { ids: transcript.ids, log_probs, segments }
    }
}

impl TryFrom<Runs> for Transcript {
    type Error = String;

    fn try_from(runs: Runs) -> Result<Self, String> {
        let (ids, log_probs) = (runs.ids.len(), runs.log_probs.len());
        let authors = runs.segments.iter().try_fold(0_usize, |sum, run| sum.checked_add(run.1));
        if log_probs != ids || authors != Some(ids) {
            let authors = authors.map_or("too many".into(), |n| n.to_string());
            return Err(format!(
                "a transcript of {ids} ids has {log_probs} log-probabilities and {authors} authors"
            ));
        }
        Ok(Self {
            ids: runs.ids,
            authors: runs
                .segments
                .iter()
                .flat_map(|&(author, len)| std::iter::repeat_n(author, len))
                .collect(),
            log_probs: runs.log_probs.into_iter().map(|p| p.unwrap_or(f32::NAN)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Transcript {
        let mut transcript = Transcript::new(vec![7, 8]);
        transcript.push(9, Author::Model, -0.5);
        transcript.extend(&[1, 2, 3], Author::Information);
        transcript.push(4, Author::Model, -0.25);
        transcript
    }

    #[test]
    fn segments_are_the_runs_of_one_author() {
        let runs: Vec<_> = sample().segments().collect();
        use Author::*;
        assert_eq!(runs, [(Prompt, 0..2), (Model, 2..3), (Information, 3..6), (Model, 6..7)]);
        assert_eq!(Transcript::default().segments().count(), 0);
        assert_eq!((sample().prompt_len(), Transcript::default().prompt_len()), (2, 0));
    }

    #[test]
    fn survives_json() {
        let json = serde_json::to_string(&sample()).unwrap();
        assert_eq!(
            json,
            r#"{"ids":[7,8,9,1,2,3,4],"log_probs":[0.0,0.0,-0.5,0.0,0.0,0.0,-0.25],"segments":[["prompt",2],["model",1],["information",3],["model",1]]}"#
        );
        assert_eq!(serde_json::from_str::<Transcript>(&json).unwrap(), sample());
    }

    #[test]
    fn a_log_prob_that_is_not_finite_is_kept_as_nan() {
        let mut transcript = sample();
        transcript.push(5, Author::Model, f32::NEG_INFINITY);
        let json = serde_json::to_string(&transcript).unwrap();
        let read: Transcript = serde_json::from_str(&json).unwrap();
        assert!(read.log_probs()[7].is_nan());
    }

    #[test]
    fn unequal_lengths_are_refused() {
        for (ids, log_probs, segments) in [
            ("[1]", "[]", r#"[["model",1]]"#),
            ("[1]", "[0]", r#"[["model",2]]"#),
            ("[1]", "[0]", r#"[["model",18446744073709551615],["model",2]]"#),
        ] {
            let json = format!(r#"{{"ids":{ids},"log_probs":{log_probs},"segments":{segments}}}"#);
            let error = serde_json::from_str::<Transcript>(&json).unwrap_err().to_string();
            assert!(error.starts_with("a transcript of 1 ids has"), "{error}");
        }
    }
}
