//! Question files and corpora, as FlashRAG and Search-R1 write them, and transcripts; every fault is named with its file, line and field.
//!
//! The formats are told apart by content, not by name: gzip and parquet by their first bytes, anything else is JSONL.
//! Blank lines, a byte order mark and Windows line ends are accepted. Ids need not be unique: merged training sets of
//! Search-R1 repeat `train_0`.

mod corpus;
mod error;
mod objects;
mod parquet;
mod questions;
mod transcripts;

pub use corpus::{Corpus, read_corpus};
pub use error::{DataError, FileProblem, Place, RowProblem, Unit};
pub use questions::{Question, read_questions};
pub use transcripts::{Transcript, read_transcripts};
