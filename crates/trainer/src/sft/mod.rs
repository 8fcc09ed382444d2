//! Supervised training, the cold start before reinforcement learning: masked cross-entropy on transcripts.
//!
//! Only what the model wrote is learnt, never what the environment said. Reading order: [`example`], token ids and what
//! to learn of them; [`transcripts`], examples from files; `batch`, the loss of a batch; [`run`], stages of steps with
//! checkpoints; [`ability`], what the model can do at the end.

pub mod ability;
mod batch;
pub mod example;
pub mod run;
mod stage;
pub mod transcripts;

pub use ability::{Ability, SourceAbility, measure};
pub use example::Example;
pub use run::{Sft, SftStep};
