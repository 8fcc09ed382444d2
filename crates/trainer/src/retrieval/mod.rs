//! Search over the network: any servers of the `/retrieve` contract as a [`Retriever`](rex_rollout::Retriever).
//!
//! [`RemoteRetriever`] asks one server, [`Shards`] several whose passages it merges by score, and [`Cached`] asks any
//! retriever each query once.

mod cached;
mod connect;
mod remote;
mod shards;

pub use cached::Cached;
pub use connect::connect;
pub use remote::{RemoteRetriever, RemoteSettings};
pub use shards::Shards;
