//! Sentence encoders of the BERT family (MiniLM, E5, BGE): texts to vectors whose inner products say how alike they are.
//!
//! [`SentenceEncoder`] is what a folder holds: the network ([`Bert`]), the tokenizer, and how the tokens' states become one
//! vector ([`EncoderConfig`], from the folder's own files).

mod bert;
mod config;
mod folder;
mod sentence;

pub use bert::Bert;
pub use config::{EncoderConfig, Pooling};
pub use sentence::{SentenceEncoder, TextKind};
