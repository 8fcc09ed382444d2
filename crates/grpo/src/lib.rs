//! GRPO with REX-RAG's policy correction (arXiv 2508.08149): everything between a step's transcripts and its loss.
//!
//! The crate knows nothing of language models, searches or files. It takes numbers per transcript or per token and
//! gives back numbers, or a differentiable tensor where a gradient is wanted. Read it in this order:
//!
//! 1. [`advantages`]: a reward per transcript becomes an advantage per transcript, `(r − mean)/(std + ε)` within
//!    the group of one question, and the relatives of that formula. [`overlong`] shapes the reward before.
//! 2. [`filter`]: which probes of the step are kept, and how many (`κ`, a moving average of their accuracy).
//! 3. [`trie`] and [`density`]: the density `μ` of the probe policy. A probe is `prefix · exploration prompt ·
//!    continuation`, and `log μ` is `log π_old − (log z)/j` on the prefix, the pool's own token probabilities on the
//!    prompt, `log π_old` on the continuation.
//! 4. [`mixture`]: the step was drawn from `π_mix = (1−α)·π_old + α·μ`; this is the denominator of the ratio.
//! 5. [`loss`]: `max(−A·ρ, −A·clip(ρ))` with `ρ = π_θ/π_mix`, and its GSPO and CISPO variants. [`kl`]: the
//!    distance to the reference policy.
//! 6. [`aggregate`]: from tokens to one number, with the denominators of the whole mini-batch.
//! 7. [`statistics`]: `α`, effective sample size, clip fraction and ratio percentiles per author.
//!
//! Steps 1 to 4 happen once a step, on the host, in `f64`. Their results are data: no gradient can flow through
//! `π_mix` because it was never a tensor with a history. Steps 5 and 6 happen per micro-batch on the device, in the
//! dtype of the log-probabilities they are given (no cast inside), and everything they return adds up over
//! micro-batches.
//!
//! # Shapes and conventions
//!
//! Tensors are `[rows, tokens]`, one transcript a row, padded at will; a `Bool` mask says which tokens are in the
//! loss. Log-probabilities are natural logarithms over the full vocabulary at the sampling temperature and must be
//! finite where the mask is false (0 will do). Densities of the host side are `&[f64]` of one transcript, unpadded.
//!
//! # Differences from the paper and from its code
//!
//! The official code (MiliLab/REX-RAG) is matched case by case in `tests/`, from recorded values. Where we differ:
//!
//! * `1/z` is spread over the *trainable* prefix tokens, so that their product is exactly `1/z`; the official `j`
//!   also counts retrieved text. [`density::Probe`] takes `j` as a field, so either can be said.
//! * The first prompt token has its own probability (official: 1) and a prompt that is the prefix of another gets
//!   its end mass (official: none), so the prompts' densities sum to 1.
//! * The mixture is a log-sum-exp: it never underflows, and at `α = 0` it is `log π_old` bit for bit.
//! * An exact [`Correction::Trajectory`] is offered beside the per-token one.
//! * The filter keeps at least one probe while there are probes, and `α` has an upper bound.
//! * Aggregation divides by totals of the mini-batch, not of the micro-batch, and 0/0 is 0 (official: NaN).
//! * The log ratio is clamped to ±20, as in later versions of verl, so that an overflowing ratio cannot turn the
//!   zero gradient of a clipped token into NaN.

pub mod advantages;
pub mod aggregate;
pub mod density;
pub mod filter;
pub mod kl;
pub mod loss;
pub mod mixture;
pub mod overlong;
pub mod statistics;
pub mod trie;

pub use advantages::{Advantage, Singleton};
pub use aggregate::{Aggregation, BatchTotals};
pub use density::{Probe, log_failure_rate};
pub use filter::{KeepRatio, ProbeFilter};
pub use kl::Kl;
pub use loss::{PolicyInput, PolicyLoss, PolicyTerm, RatioLevel};
pub use mixture::{Behaviour, Correction, Row};
pub use overlong::Overlong;
pub use statistics::{RatioSummary, TokenRatio};
pub use trie::{ProbeDensity, PromptTrie, UnknownPrompt};
