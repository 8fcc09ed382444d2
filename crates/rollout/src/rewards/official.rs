//! The official rewards: functions of one string that holds prompt and response.
//!
//! They decide by text, so a tag in the prompt or in a passage counts; [`super::Scores`] decides by author. Kept, equal
//! to the recorded values, to score other systems' transcripts as their authors did.
//!
//! Source: `verl/utils/reward_score/{qa_em,qa_em_format}.py` of MiliLab/REX-RAG, after Search-R1.

use super::format::FormatScore;
use super::normalize::normalize;
use crate::protocol::NOTICE;
use crate::python::{is_space, strip};

/// `em_check`: unlike [`super::exact_match`], a gold of which nothing is left matches a prediction of which nothing is.
pub fn exact_match(prediction: &str, golds: &[impl AsRef<str>]) -> bool {
    let prediction = normalize(prediction);
    golds.iter().any(|gold| normalize(gold.as_ref()) == prediction)
}

/// `subem_check`: a gold of which nothing is left lies inside everything.
pub fn sub_exact_match(prediction: &str, golds: &[impl AsRef<str>]) -> bool {
    let prediction = normalize(prediction);
    golds.iter().any(|gold| prediction.contains(&normalize(gold.as_ref())))
}

/// How many of a string's answers belong to the prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Examples {
    /// `allow_first_answer=True`: the last answer counts, whatever precedes it.
    None,
    /// The default: a lone answer is taken for the prompt's example.
    One,
}

/// `extract_solution`: the last `<answer>…</answer>`, stripped.
pub fn extract_solution(text: &str, examples: Examples) -> Option<&str> {
    let answers = blocks(text, "<answer>", "</answer>");
    let needed = match examples {
        Examples::None => 1,
        Examples::One => 2,
    };
    answers.last().copied().filter(|_| answers.len() >= needed)
}

/// `extract_information_blocks`, stripped.
pub fn information_blocks(text: &str) -> Vec<&str> {
    blocks(text, "<information>", "</information>")
}

/// `is_retrieval_correct`: whether some gold answer lies in an information block after normalisation.
pub fn is_retrieval_correct(text: &str, golds: &[impl AsRef<str>]) -> bool {
    information_blocks(text).iter().any(|block| sub_exact_match(block, golds))
}

/// `format_rating`: None without an assistant marker (the official score is 0 then).
pub fn format_rating(text: &str) -> Option<FormatScore> {
    response(&without_notices(text)).map(FormatScore::of)
}

/// `compute_score_em_custom` with `score=1`, the reward that REX-RAG trains on: exact match plus the weighted format
/// score, 0 without an answer.
pub fn reward(text: &str, golds: &[impl AsRef<str>], format_weight: f64, examples: Examples) -> f64 {
    let Some(answer) = extract_solution(text, examples) else { return 0.0 };
    let format = format_rating(text).map_or(0.0, |format| format.total);
    f64::from(exact_match(answer, golds)) + format_weight * format
}

/// The weights of [`tiered_reward`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tiers {
    pub structure_format_score: f64,
    pub final_format_score: f64,
    pub retrieval_score: f64,
}

/// `qa_em_format.compute_score_em` with `score=1`, Search-R1's reward: 1 for a right answer, less for a broken form or
/// for the form alone.
pub fn tiered_reward(text: &str, golds: &[impl AsRef<str>], tiers: Tiers, examples: Examples) -> f64 {
    let valid = is_valid_sequence(text);
    let answer = extract_solution(text, examples);
    let correct = answer.is_some_and(|answer| exact_match(answer, golds));
    match (correct, valid) {
        (true, true) => 1.0,
        (true, false) => 1.0 - tiers.structure_format_score,
        (false, true) if is_retrieval_correct(text, golds) => {
            tiers.structure_format_score + tiers.retrieval_score
        }
        (false, true) => tiers.structure_format_score,
        (false, false) if answer.is_some() => tiers.final_format_score,
        (false, false) => 0.0,
    }
}

/// `is_valid_sequence`: the protocol's tags, balanced and in order, with nothing but white space between them.
pub fn is_valid_sequence(text: &str) -> bool {
    response(text).is_some_and(super::format::is_valid)
}

/// What lies between each opening tag and the closing tag that comes next, stripped.
fn blocks<'t>(text: &'t str, open: &str, close: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(open).map(|at| at + open.len())
        && let Some(len) = rest[start..].find(close)
    {
        found.push(strip(&rest[start..start + len]));
        rest = &rest[start + len + close.len()..];
    }
    found
}

/// Everything behind the first `<|im_start|>assistant` and the white space that follows it.
fn response(text: &str) -> Option<&str> {
    text.split_once("<|im_start|>assistant").map(|(_, response)| response.trim_start_matches(is_space))
}

/// The official code deletes the notice as a regular expression, so that any character but a line feed passes for its
/// full stop.
fn without_notices(text: &str) -> String {
    let Some((head, tail)) = NOTICE.split_once('.') else { return text.to_owned() };
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(head) {
        let behind = &rest[at + head.len()..];
        let stop = behind.chars().next().filter(|&c| c != '\n').map_or(0, char::len_utf8);
        match behind[stop..].strip_prefix(tail).filter(|_| stop > 0) {
            Some(next) => {
                kept.push_str(&rest[..at]);
                rest = next;
            }
            None => {
                kept.push_str(&rest[..at + head.len()]);
                rest = behind;
            }
        }
    }
    kept + rest
}
