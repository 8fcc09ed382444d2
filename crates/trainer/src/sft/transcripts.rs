//! Transcripts as examples.

use super::example::Example;
use crate::data::{DataError, RowProblem, Transcript, read_transcripts};
use rex_model::Tokenizer;
use rex_rollout::{Author, Segment};
use std::path::Path;

/// Reads a file of transcripts.
///
/// # Errors
/// The first line that is no transcript, has nothing to learn, or is longer than `max_tokens`.
pub fn read_examples(
    file: &Path,
    tokenizer: &Tokenizer,
    learn_probes: bool,
    max_tokens: usize,
) -> Result<Vec<Example>, DataError> {
    let read = |Transcript { place, segments }| {
        let example = example(&segments, tokenizer, learn_probes);
        let tokens = example.ids().len();
        let problem = match example.targets() {
            0 => RowProblem::NothingToLearn,
            _ if tokens > max_tokens => RowProblem::TooLong { tokens, limit: max_tokens },
            _ => return Ok(example),
        };
        Err(DataError::Row { place, problem })
    };
    read_transcripts(file)?.into_iter().map(read).collect()
}

/// Every segment encoded on its own, as a rollout appends it: special tokens count in the prompt and in what the model
/// wrote, and are plain text in what the environment said.
fn example(segments: &[Segment], tokenizer: &Tokenizer, learn_probes: bool) -> Example {
    let mut example = Example::default();
    for Segment { author, text } in segments {
        let (ids, learnt) = match author {
            Author::Prompt => (tokenizer.encode(text), false),
            Author::Model => (tokenizer.encode(text), true),
            Author::Probe => (tokenizer.encode_text(text), learn_probes),
            Author::Notice | Author::Information => (tokenizer.encode_text(text), false),
        };
        example.push(&ids, learnt);
    }
    example
}
