//! A retrieval server as a retriever.

use super::server::{RemoteSettings, Server};
use rex_rollout::retrieval::contract::{Entry, Request, Response};
use rex_rollout::{Passage, RetrievalError, Retriever};

/// One server of the `/retrieve` contract.
pub struct RemoteRetriever(Server);

impl RemoteRetriever {
    /// `url` with its path, which is `/retrieve` where it has none.
    pub fn new(url: &str, settings: RemoteSettings) -> Self {
        Self(Server::new(url, "/retrieve", settings))
    }

    pub fn url(&self) -> &str {
        self.0.url()
    }
}

impl Retriever for RemoteRetriever {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        let batches: Vec<&[&str]> = queries.chunks(self.0.settings().batch_size).collect();
        let answers = self.0.each(&batches, |batch| {
            let queries = batch.iter().map(|query| query.to_string()).collect();
            let request = Request { queries, topk: Some(topk), return_scores: true };
            self.0.ask(&request, |response| passages(response, batch.len(), topk))
        })?;
        Ok(answers.concat())
    }
}

/// Reads an answer. A passage without a score gets `NaN`: its place in the list is all that is known.
fn passages(response: Response, queries: usize, topk: usize) -> Result<Vec<Vec<Passage>>, String> {
    let lists = response.result.len();
    if lists != queries {
        return Err(format!("it answered {queries} queries by {lists} lists"));
    }
    let passage = |entry: Entry| {
        let (document, score) = entry.into_parts();
        Passage { id: document.id, contents: document.contents, score: score.unwrap_or(f32::NAN) }
    };
    Ok(response.result.into_iter().map(|list| list.into_iter().take(topk).map(passage).collect()).collect())
}
