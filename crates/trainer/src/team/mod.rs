//! What the processes that train together do in files and rollouts; see [`rex_learner::team`].

mod check;
mod sampled;

pub(crate) use check::check_start;
pub(crate) use sampled::sample;
