//! Transcripts: JSONL of `segments`, a list of `author` and `text`; other fields are ignored.
//!
//! `rollouts/STEP.jsonl` of a training run, which calls the field `text`, is read as is.

use super::error::{DataError, Place, RowProblem};
use super::objects::Objects;
use rex_rollout::Segment;
use std::path::Path;

/// One transcript and where it stands.
#[derive(Debug, Clone)]
pub struct Transcript {
    pub place: Place,
    pub segments: Vec<Segment>,
}

/// Reads a file of transcripts.
///
/// # Errors
/// The first fault, with file and line.
pub fn read_transcripts(file: &Path) -> Result<Vec<Transcript>, DataError> {
    const NEEDED: &str = "a transcript has `segments`, a list of {author, text}";
    let transcript = |object: Result<super::objects::Object, DataError>| {
        let mut object = object?;
        let field = object.fields.remove("segments").or_else(|| object.fields.remove("text"));
        let value =
            field.ok_or_else(|| object.problem(RowProblem::Missing { field: "segments", needed: NEEDED }))?;
        let segments = serde_json::from_value(value);
        let segments = segments.map_err(|error| object.problem(RowProblem::Segments(error.to_string())))?;
        Ok(Transcript { place: object.place, segments })
    };
    Objects::open(file)?.map(transcript).collect()
}
