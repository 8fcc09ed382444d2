//! Questions: FlashRAG JSONL and Search-R1 parquet.

use super::error::{DataError, RowProblem};
use super::objects::{Object, Objects};
use super::parquet;
use serde_json::Value;
use std::path::Path;

/// A question with the answers that count as right.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    pub id: String,
    pub question: String,
    /// At least one.
    pub golden_answers: Vec<String>,
    /// The benchmark it comes from, by which scores are reported.
    pub data_source: String,
    pub metadata: Value,
    /// The whole prompt that a Search-R1 file holds.
    pub prompt: Option<String>,
}

/// Reads a question file, whatever its format.
///
/// - JSONL: `question` and `golden_answers`, optional `id`, `data_source` (or in `metadata`) and `metadata`;
/// - parquet: `reward_model.ground_truth.target` and `question` or else `prompt`, the rest as above.
///
/// Without an `id` a question gets its number in the file; without a `data_source`, the name of the file, or of its
/// folder where the file is only called after a split (`nq/test.jsonl`).
///
/// # Errors
/// The first fault, with file, line or row, and field.
pub fn read_questions(file: &Path) -> Result<Vec<Question>, DataError> {
    let source = source_of(file);
    if parquet::is_parquet(file)? {
        return parquet::rows(file)?.into_iter().map(|row| from_parquet(row, &source)).collect();
    }
    Objects::open(file)?.map(|object| from_flashrag(object?, &source)).collect()
}

fn from_flashrag(mut object: Object, source: &str) -> Result<Question, DataError> {
    const NEEDED: &str = "a question has `question` and `golden_answers`";
    let question = object.text("question", NEEDED)?;
    let answers = object.fields.remove("golden_answers");
    let golden_answers = golden_answers(&object, "golden_answers", answers, NEEDED)?;
    assemble(object, question, golden_answers, source, None)
}

fn from_parquet(mut row: Object, source: &str) -> Result<Question, DataError> {
    const TARGET: &str = "reward_model.ground_truth.target";
    const NEEDED: &str = "Search-R1's format has `prompt` and `reward_model.ground_truth.target`";
    let mut target = row.fields.remove("reward_model");
    for key in ["ground_truth", "target"] {
        target = target.and_then(|mut value| value.get_mut(key).map(Value::take));
    }
    let golden_answers = golden_answers(&row, TARGET, target, NEEDED)?;
    let prompt = row.fields.remove("prompt").and_then(|prompt| user_turn(&prompt));
    let question = match (row.fields.contains_key("question"), &prompt) {
        (false, Some(prompt)) => asked(prompt).to_string(),
        (false, None) => return Err(row.problem(RowProblem::Missing { field: "prompt", needed: NEEDED })),
        (true, _) => row.text("question", NEEDED)?,
    };
    assemble(row, question, golden_answers, source, prompt)
}

fn assemble(
    mut object: Object,
    question: String,
    golden_answers: Vec<String>,
    source: &str,
    prompt: Option<String>,
) -> Result<Question, DataError> {
    let id = object.id()?.unwrap_or_else(|| object.place.number.to_string());
    let metadata = object.fields.remove("metadata").unwrap_or_default();
    let named = object.fields.get("data_source").or_else(|| metadata.get("data_source"));
    let data_source = named.and_then(Value::as_str).unwrap_or(source).to_string();
    Ok(Question { id, question, golden_answers, data_source, metadata, prompt })
}

/// A list of strings, or the one string that Search-R1's scorer takes as well.
fn golden_answers(
    object: &Object,
    field: &'static str,
    value: Option<Value>,
    needed: &'static str,
) -> Result<Vec<String>, DataError> {
    let answers = match value {
        None | Some(Value::Null) => return Err(object.problem(RowProblem::Missing { field, needed })),
        Some(Value::Array(answers)) => answers,
        Some(Value::String(answer)) => vec![Value::String(answer)],
        Some(other) => return Err(object.wrong(field, "a list of strings", &other)),
    };
    if answers.is_empty() {
        return Err(object.problem(RowProblem::NoAnswers { field }));
    }
    let text = |answer| match answer {
        Value::String(answer) => Ok(answer),
        other => Err(object.wrong(field, "a list of strings only", &other)),
    };
    answers.into_iter().map(text).collect()
}

/// The last thing that the user says in a chat.
fn user_turn(prompt: &Value) -> Option<String> {
    let turns = prompt.as_array()?.iter().rev();
    let turn = turns.into_iter().find(|turn| turn["role"] == "user")?;
    turn["content"].as_str().map(str::to_string)
}

/// The question in Search-R1's prompt, which ends with `Question: …`; any other prompt is one as a whole.
fn asked(prompt: &str) -> &str {
    prompt.rsplit_once("Question:").map_or(prompt, |(_, question)| question).trim()
}

fn source_of(file: &Path) -> String {
    let stem = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.split('.').next().unwrap_or_default().to_string()
    };
    let name = stem(file);
    match file.parent() {
        Some(folder) if ["train", "dev", "test", "validation"].contains(&name.as_str()) => {
            Some(stem(folder)).filter(|folder| !folder.is_empty()).unwrap_or(name)
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_name_their_source() {
        let check = |file: &str, expected: &str| assert_eq!(source_of(Path::new(file)), expected, "{file}");
        check("data/hotpotqa_dev.jsonl.gz", "hotpotqa_dev");
        check("FlashRAG/nq/test.jsonl", "nq");
        check("test.jsonl", "test");
        check("nq.search/train.parquet", "nq");
        check("questions", "questions");
    }

    #[test]
    fn the_question_is_the_end_of_a_search_r1_prompt() {
        assert_eq!(asked("Answer. For example, … Question: who was Ur?\n"), "who was Ur?");
        assert_eq!(asked("Who was Ur?\n"), "Who was Ur?");
    }
}
