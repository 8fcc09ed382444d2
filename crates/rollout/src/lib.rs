//! Token-exact rollouts of a language model that may call a search engine.
//!
//! An [`Episode`] is one question being answered: a state machine that says what it needs ([`Need`]: a token or
//! passages), takes it, and keeps the [`Transcript`] of ids, authors and log-probabilities. It never touches a model, a
//! cache, a file, a clock or a thread, so whoever drives it may block, batch or await: the same episode runs in training
//! and in a browser tab. Reading order:
//!
//! 1. [`Transcript`]: who wrote which token, under which log-probability;
//! 2. [`Codec`], [`TurnText`]: text to ids and back, and text that grows token by token;
//! 3. [`Action`], [`observation`], [`Protocol`]: Search-R1's tags, what the environment answers, the limits;
//! 4. [`Episode`]: the rules that tie them together;
//! 5. [`Episode::probe`], [`ExplorationPool`]: REX-RAG's mixed sampling (arXiv 2508.08149);
//! 6. [`rewards`]: exact match and what is reported beside it;
//! 7. [`retrieval`]: passages, and the index that finds them.

mod action;
mod codec;
mod episode;
pub mod observation;
mod pool;
mod probe;
mod protocol;
mod python;
pub mod retrieval;
pub mod rewards;
mod transcript;

pub use action::Action;
pub use codec::{Codec, TurnText};
pub use episode::{Episode, Need, Outcome, Record, Turn};
pub use pool::{DEFAULT_EXPLORATION, ExplorationPool, PoolError};
pub use probe::{Branch, ProbeOn};
pub use protocol::{NOTICE, Protocol};
pub use retrieval::{Passage, RetrievalError, Retriever};
pub use rewards::Scores;
pub use transcript::{Author, Segment, Transcript};
