//! What can be wrong with a data file.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A data file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot read {}: {source}", file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("{}: {problem}", file.display())]
    File { file: PathBuf, problem: FileProblem },
    #[error("{place}: {problem}")]
    Row { place: Place, problem: RowProblem },
}

/// What is wrong with a file as a whole.
#[derive(Debug, thiserror::Error)]
pub enum FileProblem {
    #[error("the file is empty; it must hold at least one line")]
    Empty,
    #[error("the gzip data ends too early; the file was cut off, copy or download it again")]
    CutOff,
    #[error("a broken parquet file ({0}); copy or download it again, or write it without exotic compression")]
    Parquet(String),
}

/// What is wrong with one line of JSONL or one row of parquet.
#[derive(Debug, thiserror::Error)]
pub enum RowProblem {
    #[error("not a JSON object ({0}); the file must hold one object a line")]
    Json(String),
    #[error("not UTF-8 text; save the file as UTF-8")]
    NotUtf8,
    #[error("the field `{field}` is missing; {needed}")]
    Missing { field: &'static str, needed: &'static str },
    #[error("the field `{field}` must be {expected}, but is {found}")]
    Type { field: &'static str, expected: &'static str, found: &'static str },
    #[error("`{field}` is empty; give at least one answer or remove the question")]
    NoAnswers { field: &'static str },
    #[error("`segments` is not a list of {{author, text}} ({0})")]
    Segments(String),
    #[error("the model wrote nothing in it, so there is nothing to learn; remove the line")]
    NothingToLearn,
    #[error("{tokens} tokens, more than rollout.max_prompt_length = {limit}; raise it or remove the line")]
    TooLong { tokens: usize, limit: usize },
    #[error("`{field}` is empty; give its text or remove the row")]
    NoText { field: &'static str },
}

/// A line or row of a file.
#[derive(Debug, Clone)]
pub struct Place {
    pub file: Arc<Path>,
    pub unit: Unit,
    /// From 1.
    pub number: u64,
}

/// What a file consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Line,
    Row,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Line => "line",
            Unit::Row => "row",
        };
        write!(f, "{}, {unit} {}", self.file.display(), self.number)
    }
}
