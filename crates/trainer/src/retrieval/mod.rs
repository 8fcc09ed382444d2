//! The makers of retrievers that need files, a network or an encoder.
//!
//! Here: [`local`] searches an index by words, by meaning ([`DenseRetriever`], over vectors that an encoder made) or
//! both ([`Hybrid`]). Elsewhere: [`RemoteRetriever`] asks one server of the `/retrieve` contract, [`Shards`] several whose passages
//! it merges by score. On top of any: [`Reranked`] has a server look at its passages again, and [`Cached`] asks it each query once.

mod cached;
mod connect;
mod dense;
mod graph;
mod hybrid;
mod local;
mod remote;
mod rerank;
mod server;
mod shards;
mod vectors;

pub use cached::Cached;
pub use connect::connect;
pub use dense::{DenseRetriever, write_graph, write_vectors};
pub use hybrid::Hybrid;
pub use local::{Method, local};
pub use remote::RemoteRetriever;
pub use rerank::Reranked;
pub use server::RemoteSettings;
pub use shards::Shards;
pub use vectors::has_vectors;
