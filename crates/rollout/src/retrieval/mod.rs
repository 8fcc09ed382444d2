//! Search: what a rollout asks for passages, and the BM25 index that answers it.

mod passage;

pub use passage::{Passage, RetrievalError, Retriever};
