//! The retrieval server: `/retrieve` (the contract is `rex_rollout::retrieval::contract`), `/health` and `/metrics`.
//!
//! One request takes three gates. It is admitted, or refused with 503 where as many as [`Limits::max_requests`] are under
//! way: a client that tries again later is served sooner than one in an endless queue. Its body is read and checked, within
//! the time and size allowed. It waits, in order of arrival, for one of as many places as there are cores, and is searched
//! for on a thread that may block. So memory is bounded whatever the load, and a burst is answered late rather than never.

mod limits;
mod metrics;
mod refusal;
mod router;

pub use limits::Limits;
pub use router::router;
