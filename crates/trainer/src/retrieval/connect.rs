//! The retriever that a configuration names.

use super::{Cached, Method, RemoteRetriever, RemoteSettings, Reranked, Shards, local};
use crate::config::RetrieverConfig;
use crate::data::read_corpus;
use crate::error::TrainError;
use burn::tensor::Device;
use rex_rollout::retrieval::Bm25Index;
use rex_rollout::{RetrievalError, Retriever};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

/// Opens an index, indexes a corpus, or asks servers whether they are there. An encoder runs on `device`.
///
/// # Errors
/// A configuration that names nothing to search, what cannot be opened, or a server that does not answer, or not in the
/// contract, after the configured retries.
pub fn connect(config: &RetrieverConfig, device: &Device) -> Result<Box<dyn Retriever>, TrainError> {
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
    let first: Box<dyn Retriever> =
        if config.url.is_empty() { here(config, device)? } else { Box::new(servers(config, settings)?) };
    let Some(url) = &config.rerank_url else {
        let asks = !config.url.is_empty();
        return Ok(if asks { Box::new(Cached::new(first, CACHED_QUERIES)) } else { first });
    };
    let reranked = Reranked::new(first, url, settings, config.rerank_candidates);
    reranked.check()?;
    Ok(Box::new(Cached::new(reranked, CACHED_QUERIES)))
}

/// In this process.
fn here(config: &RetrieverConfig, device: &Device) -> Result<Box<dyn Retriever>, TrainError> {
    if let Some(folder) = &config.index {
        let index = Arc::new(Bm25Index::open(folder)?);
        return local(index, folder, config.method, device);
    }
    if config.method != Method::Bm25 {
        let hint =
            "retriever.method asks for vectors, which an index built with `rex index build --encoder` has";
        return Err(TrainError::Missing { key: "retriever.index", hint });
    }
    if config.corpus.is_empty() {
        let hint = "name corpus files (JSONL), an index made by `rex index build` as retriever.index, or a server as \
                    retriever.url";
        return Err(TrainError::Missing { key: "retriever.corpus", hint });
    }
    Ok(Box::new(Bm25Index::in_memory(read_corpus(&config.corpus)?)?))
}

/// The servers at `retriever.url`; several must give scores to merge by.
fn servers(
    config: &RetrieverConfig,
    settings: RemoteSettings,
) -> Result<Shards<RemoteRetriever>, RetrievalError> {
    let servers: Vec<_> = config.url.iter().map(|url| RemoteRetriever::new(url, settings)).collect();
    for server in &servers {
        let passages = server.retrieve(&["capital of France"], config.topk)?.concat();
        if servers.len() > 1 && passages.iter().any(|passage| passage.score.is_nan()) {
            let message =
                "it gives no scores, by which the passages of several servers are merged".to_string();
            return Err(RetrievalError::Server { url: server.url().to_string(), message });
        }
    }
    Ok(Shards::new(servers))
}
