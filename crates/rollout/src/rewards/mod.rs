//! What an answer is worth: exact match, the format score, and what is reported beside them.
//!
//! [`Scores`] reads a transcript's segments and trusts only the model's own text. [`official`] holds the official
//! functions, which read one string; the rest are the pieces of both.

mod answer;
mod exact_match;
mod f1;
mod format;
mod normalize;
pub mod official;
mod scores;

pub use answer::answer;
pub use exact_match::{exact_match, folded_exact_match, sub_exact_match};
pub use f1::f1;
pub use format::FormatScore;
pub use normalize::{fold, normalize};
pub use scores::Scores;
