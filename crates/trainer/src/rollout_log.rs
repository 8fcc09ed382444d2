//! `rollouts/STEP.jsonl`: every transcript of a step, with its tokens, authors, text and scores.

use crate::data::Question;
use crate::error::TrainError;
use crate::run_dir::replace_file;
use crate::sampler::{Origin, Rollout};
use rex_rollout::{Codec, Record, Scores, Segment};
use serde::Serialize;
use std::path::Path;

/// One line.
#[derive(Debug, Serialize)]
struct Line<'a> {
    step: usize,
    id: &'a str,
    question: &'a str,
    golden_answers: &'a [String],
    sample: usize,
    origin: Origin,
    /// Whether it entered the loss.
    kept: bool,
    reward: f64,
    /// Absent where it did not enter the loss.
    advantage: Option<f64>,
    scores: &'a Scores,
    text: Vec<Segment>,
    #[serde(flatten)]
    record: Record,
}

/// A rollout and what became of it.
pub struct Logged<'a> {
    pub rollout: &'a Rollout,
    pub question: &'a Question,
    pub reward: f64,
    pub advantage: Option<f64>,
}

/// # Errors
/// The file system's, with the path.
pub fn write(path: &Path, step: usize, rollouts: &[Logged<'_>], codec: &dyn Codec) -> Result<(), TrainError> {
    let mut text = String::new();
    for &Logged { rollout, question, reward, advantage } in rollouts {
        let line = Line {
            step,
            id: &question.id,
            question: &question.question,
            golden_answers: &question.golden_answers,
            sample: rollout.sample,
            origin: rollout.origin,
            kept: advantage.is_some(),
            reward,
            advantage,
            scores: &rollout.scores,
            text: rollout.episode.segments(codec),
            record: rollout.episode.record(),
        };
        text.push_str(&serde_json::to_string(&line).expect("plain data"));
        text.push('\n');
    }
    replace_file(path, text.as_bytes())
}
