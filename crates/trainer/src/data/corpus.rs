//! Corpora: JSONL of `id` and `contents` (`"Title"\ntext`).

use super::error::{DataError, RowProblem};
use super::objects::{Object, Objects};
use rex_rollout::retrieval::Document;
use std::path::{Path, PathBuf};

/// The documents of a corpus file in order, read as they are asked for; ends behind the first error.
pub struct Corpus {
    objects: Objects,
}

impl Corpus {
    pub fn open(file: &Path) -> Result<Self, DataError> {
        Ok(Self { objects: Objects::open(file)? })
    }

    /// Bytes of the file read so far, compressed ones where it is; for a progress bar.
    pub fn bytes_read(&self) -> u64 {
        self.objects.bytes_read()
    }
}

impl Iterator for Corpus {
    type Item = Result<Document, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.objects.next()?.and_then(document))
    }
}

fn document(mut object: Object) -> Result<Document, DataError> {
    const NEEDED: &str = "a passage has `id` and `contents` (the title in quotes, a line break, the text)";
    let id =
        object.id()?.ok_or_else(|| object.problem(RowProblem::Missing { field: "id", needed: NEEDED }))?;
    let contents = object.text("contents", NEEDED)?;
    Ok(Document { id, contents })
}

/// All documents of the files, in memory.
pub fn read_corpus(files: &[PathBuf]) -> Result<Vec<Document>, DataError> {
    let mut documents = Vec::new();
    for file in files {
        for document in Corpus::open(file)? {
            documents.push(document?);
        }
    }
    Ok(documents)
}
