//! The tests of `rex-grpo`, in one binary: linking is the slow part.
//!
//! `golden_*` hold every recorded case of the official code, the rest hold what must be true of ours.
#![allow(unreachable_pub)] // `support` and the recorded cases are shared with other crates' tests

mod golden_advantages;
mod golden_filter;
mod golden_mixture;
mod golden_policy_loss;
mod golden_prefix_index;
mod invariance;
mod official;
mod policy_gradient;
mod support;
mod variants;
