//! What can go wrong with an index or a search engine. A query is never what went wrong.

use std::path::PathBuf;
use tantivy::TantivyError;

/// The engine failed to answer.
#[derive(Debug, thiserror::Error)]
pub enum RetrievalError {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("the retrieval server at {url} failed: {message}")]
    Server { url: String, message: String },
}

/// An index cannot be built, opened or read.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error("{place} holds no index ({reason}); build one with `rex index build`")]
    NotAnIndex { place: String, reason: String },
    #[error("the index in {place} was built by another version of Rex; build it again")]
    Outdated { place: String },
    #[error("the index in {place} is damaged or incomplete ({reason}); build it again")]
    Damaged { place: String, reason: String },
    #[error("the index in {place} holds no vectors; build it with `rex index build --encoder`")]
    NoVectors { place: String },
    #[error("{} holds files that are not an index; give a new or empty folder", .folder.display())]
    Occupied { folder: PathBuf },
    #[error("cannot write the index in {}: {source}", .folder.display())]
    Write { folder: PathBuf, source: std::io::Error },
    #[error("cannot build the index: {0}")]
    Build(#[from] TantivyError),
}
