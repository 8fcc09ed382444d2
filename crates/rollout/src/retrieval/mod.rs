//! Search: what a rollout asks for passages, and the BM25 index that answers it.
//!
//! [`Bm25Index`] is built over a corpus into a folder ([`IndexBuilder`], native only) or into memory
//! ([`Bm25Index::in_memory`]), travels as one blob of bytes ([`Bm25Index::to_bytes`]), and answers any string: a query
//! is text of a model, analysed into terms like the passages, never parsed as a query language. [`contract`] is what
//! retrieval servers and their clients say to each other.

mod analyzer;
mod archive;
mod bm25;
#[cfg(not(target_family = "wasm"))]
mod builder;
pub mod contract;
mod error;
#[cfg(not(target_family = "wasm"))]
mod folder;
mod index;
mod lengths;
mod passage;
mod schema;

#[cfg(not(target_family = "wasm"))]
pub use builder::IndexBuilder;
pub use error::{IndexError, RetrievalError};
pub use index::{Bm25Index, Statistics};
pub use passage::{Document, Passage, Retriever};
