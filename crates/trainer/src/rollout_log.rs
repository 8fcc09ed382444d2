//! `rollouts/STEP.jsonl`: every transcript of a step, with its tokens, authors, text, densities and scores.
//! `rollouts/val-STEP.jsonl`: the same of some questions of an evaluation, none of which enters a loss.

use crate::data::Question;
use crate::error::TrainError;
use crate::run_dir::replace_file;
use crate::sampler::{Origin, Rollout};
use rex_rollout::{Codec, Record, Scores, Segment, Transcript};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// One line. What older runs lack has a default, so that their reports can still be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub step: usize,
    /// Number of its question in the step, which its whole group shares.
    #[serde(default)]
    pub group: Option<usize>,
    pub id: String,
    /// The benchmark that the question comes from.
    #[serde(default)]
    pub data_source: String,
    pub question: String,
    pub golden_answers: Vec<String>,
    pub sample: usize,
    pub origin: Origin,
    /// Whether it entered the loss.
    pub kept: bool,
    pub reward: f64,
    /// Absent where it did not enter the loss.
    pub advantage: Option<f64>,
    pub scores: Scores,
    pub text: Vec<Segment>,
    /// The text that each token behind the prompt adds.
    #[serde(default)]
    pub pieces: Vec<String>,
    /// `log π_mix` of every token (METHOD §4), 0 outside the loss; absent where the transcript did not enter it.
    #[serde(default)]
    pub log_mix: Option<Vec<Option<f32>>>,
    #[serde(flatten)]
    pub record: Record,
}

/// A rollout and what became of it.
pub struct Logged<'a> {
    pub rollout: &'a Rollout,
    pub question: &'a Question,
    pub reward: f64,
    /// Of a rollout that entered the loss.
    pub learnt: Option<Learnt<'a>>,
}

/// What the loss made of a transcript.
#[derive(Clone, Copy)]
pub struct Learnt<'a> {
    pub advantage: f64,
    /// `log π_mix` of every token; without meaning outside the loss.
    pub behaviour: &'a [f64],
}

/// # Errors
/// The file system's, with the path.
pub fn write(path: &Path, step: usize, rollouts: &[Logged<'_>], codec: &dyn Codec) -> Result<(), TrainError> {
    let mut text = String::new();
    for logged in rollouts {
        let line = Line::new(step, logged, codec);
        text.push_str(&serde_json::to_string(&line).expect("plain data"));
        text.push('\n');
    }
    replace_file(path, text.as_bytes())
}

impl Line {
    fn new(step: usize, logged: &Logged<'_>, codec: &dyn Codec) -> Self {
        let &Logged { rollout, question, reward, learnt } = logged;
        let record = rollout.episode.record();
        Self {
            step,
            group: Some(rollout.task),
            id: question.id.clone(),
            data_source: question.data_source.clone(),
            question: question.question.clone(),
            golden_answers: question.golden_answers.clone(),
            sample: rollout.sample,
            origin: rollout.origin,
            kept: learnt.is_some(),
            reward,
            advantage: learnt.map(|learnt| learnt.advantage),
            scores: rollout.scores.clone(),
            text: rollout.episode.segments(codec),
            pieces: record.transcript.pieces(record.transcript.prompt_len().., codec),
            log_mix: learnt.map(|learnt| log_mix(&record.transcript, learnt.behaviour)),
            record,
        }
    }
}

fn log_mix(transcript: &Transcript, behaviour: &[f64]) -> Vec<Option<f32>> {
    let in_loss = transcript.authors().iter().map(|author| author.in_loss());
    let value = |(&log, in_loss): (&f64, bool)| if in_loss { log as f32 } else { 0.0 };
    behaviour.iter().zip(in_loss).map(value).map(|log| log.is_finite().then_some(log)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use rex_rollout::{Episode, Protocol};

    fn rollout(answer: &str) -> Rollout {
        let mut episode = Episode::new(Bytes.encode("who is the queen? "));
        for id in Bytes.encode(&format!("<answer>{answer}</answer>")) {
            episode.push_token(id, -0.5, &Protocol::default(), &Bytes);
        }
        let scores = Scores::new(&episode.segments(&Bytes), &["Ann"]);
        Rollout { task: 3, sample: 1, origin: Origin::Original, episode, scores }
    }

    fn question() -> Question {
        Question {
            id: "q".into(),
            question: "who is the queen?".into(),
            golden_answers: vec!["Ann".into()],
            data_source: "nq".into(),
            metadata: serde_json::Value::Null,
            prompt: None,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("7.jsonl");
        let (rollout, question) = (rollout("日é"), question());
        let behaviour = vec![-0.25; rollout.episode.transcript().len()];
        let learnt = Some(Learnt { advantage: -1.5, behaviour: &behaviour });
        let logged = |learnt| Logged { rollout: &rollout, question: &question, reward: 0.0, learnt };
        write(&path, 7, &[logged(learnt), logged(None)], &Bytes).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Line> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();

        let Line { step, group, kept, advantage, pieces, log_mix, .. } = &lines[0];
        assert_eq!((*step, *group, *kept, *advantage), (7, Some(3), true, Some(-1.5)));
        assert_eq!(pieces.concat(), "<answer>日é</answer>");
        assert_eq!(
            pieces.len() + 18,
            rollout.episode.transcript().len(),
            "one piece a token behind the prompt"
        );
        assert_eq!(
            pieces[8..13],
            ["", "", "日", "", "é"],
            "a character belongs to the token that completes it"
        );
        let log_mix = log_mix.as_ref().unwrap();
        assert_eq!((log_mix[17], log_mix[18]), (Some(0.0), Some(-0.25)), "0 outside the loss");
        assert_eq!(lines[1].log_mix, None);
        assert!(!lines[1].kept);
    }

    #[test]
    fn lines_of_older_runs_are_read() {
        let line = r#"{"step":1,"id":"a","question":"q","golden_answers":["x"],"sample":0,"origin":"probe",
            "kept":true,"reward":0.0,"advantage":null,"scores":{"answer":null,"em":0.0,"sub_em":0.0,"f1":0.0,
            "folded_em":0.0,"format":0.0},"text":[],"transcript":{"ids":[1],"log_probs":[0.0],
            "segments":[["prompt",1]]},"turns":[],"outcome":"no_answer","branch":null}"#;
        let line: Line = serde_json::from_str(line).unwrap();
        assert_eq!((line.group, line.pieces.len(), line.log_mix), (None, 0, None));
    }
}
