//! The retriever that a configuration names by URL.

use super::{Cached, RemoteRetriever, RemoteSettings, Shards};
use crate::config::RetrieverConfig;
use rex_rollout::{RetrievalError, Retriever};
use std::num::NonZeroUsize;
use std::time::Duration;

/// Asks the servers at `retriever.url`, first of all whether they are there.
///
/// # Errors
/// A server that does not answer, or not in the contract, after the configured retries; or one of several that gives no
/// scores to merge by.
pub fn connect(config: &RetrieverConfig) -> Result<Box<dyn Retriever>, RetrievalError> {
    /// A step of 512 questions with 5 rollouts and 5 searches each asks at most 12,800 different queries.
    const CACHED_QUERIES: NonZeroUsize = NonZeroUsize::new(16_384).unwrap();
    const BACKOFF: Duration = Duration::from_millis(500);
    let settings = RemoteSettings {
        timeout: Duration::from_secs(config.timeout_s),
        retries: config.retries,
        batch_size: config.batch_size,
        concurrency: config.concurrency,
        backoff: BACKOFF,
    };
    let servers: Vec<_> = config.url.iter().map(|url| RemoteRetriever::new(url, settings)).collect();
    for server in &servers {
        let passages = server.retrieve(&["capital of France"], config.topk)?.concat();
        if servers.len() > 1 && passages.iter().any(|passage| passage.score.is_nan()) {
            let message =
                "it gives no scores, by which the passages of several servers are merged".to_string();
            return Err(RetrievalError::Server { url: server.url().to_string(), message });
        }
    }
    Ok(Box::new(Cached::new(Shards::new(servers), CACHED_QUERIES)))
}
