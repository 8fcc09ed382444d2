//! A transcript as the page's scripts read it, with nothing that they can work out.

use crate::rollout_log::Line;
use crate::sampler::Origin;
use rex_rollout::{Author, Outcome, Segment};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Shown {
    pub(super) origin: Origin,
    sample: usize,
    kept: bool,
    reward: f64,
    advantage: Option<f64>,
    pub(super) em: f64,
    f1: f64,
    pub(super) answer: Option<String>,
    outcome: &'static str,
    /// Authors behind the prompt, each with its number of tokens.
    runs: Vec<(Author, usize)>,
    /// Tokens behind the prompt that are its parent's: their pieces and log-probabilities stand there.
    prefix: usize,
    /// The text of each token behind prompt and prefix.
    pieces: Vec<String>,
    /// `log π_old` of each token of the loss behind the prefix.
    log_probs: Vec<Option<f64>>,
    /// `log π_old/π_mix` of the tokens of the loss, prefix included, as runs `[tokens, value]`; empty where the transcript
    /// did not enter the loss.
    log_ratios: Vec<(usize, Option<f64>)>,
    /// Of a log without pieces: the text of each run.
    text: Vec<Segment>,
}

impl Shown {
    /// `parent`: of a probe, whose prefix then is not repeated.
    pub(super) fn new(line: &Line, parent: Option<&Line>) -> Self {
        let transcript = &line.record.transcript;
        let (authors, log_old) = (transcript.authors(), transcript.log_probs());
        let prompt = prompt_len(line);
        let has_pieces = line.pieces.len() == authors.len() - prompt;
        let prefix = parent.filter(|_| has_pieces).map_or(0, |parent| shared(line, parent, prompt));
        let in_loss = |t: &usize| authors[*t].in_loss();
        let from = prompt + prefix;
        let log_probs = (from..authors.len()).filter(in_loss).map(|t| rounded(log_old[t].into(), 1e3));
        let log_mix = line.log_mix.as_ref().filter(|log_mix| log_mix.len() == authors.len());
        let log_ratios = log_mix.map(|log_mix| {
            let ratio = |t: usize| rounded(f64::from(log_old[t]) - f64::from(log_mix[t]?), 1e4);
            runs((prompt..authors.len()).filter(in_loss).map(ratio))
        });
        let behind_prompt = |segment: &&Segment| !has_pieces && segment.author != Author::Prompt;
        Self {
            origin: line.origin,
            sample: line.sample,
            kept: line.kept,
            reward: line.reward,
            advantage: line.advantage,
            em: line.scores.em,
            f1: line.scores.f1,
            answer: line.scores.answer.clone(),
            outcome: match line.record.outcome {
                Some(Outcome::Answer(_)) => "answered",
                Some(Outcome::NoAnswer) => "no answer",
                Some(Outcome::Truncated) => "cut off",
                None => "unfinished",
            },
            runs: runs(authors[prompt..].iter().copied())
                .into_iter()
                .map(|(len, author)| (author, len))
                .collect(),
            prefix,
            pieces: if has_pieces { line.pieces[prefix..].to_vec() } else { Vec::new() },
            log_probs: if has_pieces { log_probs.collect() } else { Vec::new() },
            log_ratios: log_ratios.unwrap_or_default(),
            text: line.text.iter().filter(behind_prompt).cloned().collect(),
        }
    }

    /// The prompt of a transcript, as text.
    pub(super) fn prompt(line: &Line) -> String {
        line.text
            .first()
            .filter(|segment| segment.author == Author::Prompt)
            .map_or_else(String::new, |segment| segment.text.clone())
    }
}

fn prompt_len(line: &Line) -> usize {
    line.record.transcript.authors().iter().take_while(|&&author| author == Author::Prompt).count()
}

/// Tokens behind the prompt up to where the probe left its parent; 0 if it is not the parent's continuation.
fn shared(probe: &Line, parent: &Line, prompt: usize) -> usize {
    let Some(branch) = &probe.record.branch else { return 0 };
    let (ours, theirs) = (probe.record.transcript.ids(), parent.record.transcript.ids());
    let same = ours.get(..branch.prefix).is_some_and(|prefix| theirs.starts_with(prefix));
    let parent_has_pieces = parent.pieces.len() + prompt == theirs.len();
    if same && parent_has_pieces { branch.prefix.saturating_sub(prompt) } else { 0 }
}

/// Equal neighbours as `(count, value)`.
fn runs<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<(usize, T)> {
    let mut runs: Vec<(usize, T)> = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((count, last)) if *last == value => *count += 1,
            _ => runs.push((1, value)),
        }
    }
    runs
}

/// To a part of one: a page of transcripts is mostly digits otherwise. None where JSON has no such number.
fn rounded(value: f64, per_unit: f64) -> Option<f64> {
    value.is_finite().then(|| (value * per_unit).round() / per_unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A line with `ids` behind a prompt of one token, the last `probe` of which are an exploration prompt's.
    fn line(ids: &[u32], probe: usize, branch: Value) -> Line {
        let own = ids.len() - probe;
        let all: Vec<u32> = [&[9], ids].concat();
        let pieces: Vec<String> = ids.iter().map(|id| format!("<{id}>")).collect();
        serde_json::from_value(json!({
            "step": 1, "group": 0, "id": "a", "data_source": "nq", "question": "q", "golden_answers": ["x"], "sample": 0,
            "origin": if probe > 0 { "probe" } else { "original" }, "kept": true, "reward": 1.0, "advantage": 0.5,
            "scores": {"answer": "x", "em": 1.0, "sub_em": 1.0, "f1": 1.0, "folded_em": 1.0, "format": 0.0},
            "text": [{"author": "prompt", "text": "p"}], "pieces": pieces, "log_mix": vec![-0.75; all.len()],
            "transcript": {"ids": all, "log_probs": vec![-0.5; all.len()],
                "segments": [["prompt", 1], ["model", own], ["probe", probe]]},
            "turns": [], "outcome": "no_answer", "branch": branch
        }))
        .unwrap()
    }

    #[test]
    fn a_probe_does_not_repeat_its_parent() {
        let parent = line(&[1, 2, 3, 4], 0, Value::Null);
        let branch = json!({"prefix": 4, "exploration": {"start": 4, "end": 5}});
        let shown = Shown::new(&line(&[1, 2, 3, 7], 1, branch.clone()), Some(&parent));
        assert_eq!(
            (shown.prefix, &shown.pieces[..], shown.log_probs.len()),
            (3, &["<7>".to_string()][..], 1)
        );
        assert_eq!(shown.log_ratios, [(4, Some(0.25))]);
        assert_eq!(shown.runs, [(Author::Model, 3), (Author::Probe, 1)]);
        let stranger = Shown::new(&line(&[1, 2, 5, 7], 1, branch), Some(&parent));
        assert_eq!((stranger.prefix, stranger.pieces.len()), (0, 4));
    }

    #[test]
    fn a_log_without_pieces_shows_its_text() {
        let mut old = line(&[1, 2], 0, Value::Null);
        (old.pieces, old.log_mix) = (Vec::new(), None);
        old.text.push(Segment { author: Author::Model, text: "t".into() });
        let shown = Shown::new(&old, None);
        assert_eq!((shown.text.len(), shown.log_probs.len(), shown.log_ratios.len()), (1, 0, 0));
        assert_eq!(Shown::prompt(&old), "p");
    }
}
