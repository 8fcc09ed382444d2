//! A second look at what was found, by a server of Search-R1's `/rerank` contract: a cross-encoder that reads query and passage
//! together.
//!
//! ```text
//! POST {"queries": [str], "documents": [[{"document": {"id", "contents"}, "score": f}, …]], "rerank_topk": int, "return_scores": bool}
//! 200  {"result": [[{"document": "(Title: …) text", "score": f}, …]]}
//! ```
//!
//! The answer holds the text that the cross-encoder read instead of the passage; a server may also give `{"id", "contents"}`.

use super::server::{RemoteSettings, Server};
use rex_rollout::retrieval::contract::{Entry, Found};
use rex_rollout::{Passage, RetrievalError, Retriever};
use serde::{Deserialize, Serialize};

/// The best of another retriever's passages, in the order and with the scores of a reranking server.
pub struct Reranked<R> {
    inner: R,
    server: Server,
    candidates: usize,
}

#[derive(Serialize)]
struct Request<'a> {
    queries: [&'a str; 1],
    documents: [Vec<Entry>; 1],
    rerank_topk: usize,
    return_scores: bool,
}

#[derive(Deserialize)]
struct Response {
    result: Vec<Vec<Ranked>>,
}

#[derive(Deserialize)]
struct Ranked {
    document: Named,
    score: f32,
}

/// How an answer names a passage.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Text(String),
    Document(Found),
}

impl<R: Retriever> Reranked<R> {
    /// `candidates` passages of `inner` are looked at. `url` with its path, which is `/rerank` where it has none.
    pub fn new(inner: R, url: &str, settings: RemoteSettings, candidates: usize) -> Self {
        Self { inner, server: Server::new(url, "/rerank", settings), candidates }
    }

    /// Asks the server about a made-up passage: a wrong URL is told before a run starts.
    ///
    /// # Errors
    /// When it does not answer, or not in the contract, after all retries.
    pub fn check(&self) -> Result<(), RetrievalError> {
        let contents = "\"Paris\"\nParis is the capital of France.".to_string();
        let passage = Passage { id: "0".to_string(), contents, score: 1.0 };
        self.rerank("capital of France", &[passage], 1).map(drop)
    }

    /// A request holds one query: Search-R1's server compares each query with all documents of its request.
    fn rerank(&self, query: &str, passages: &[Passage], topk: usize) -> Result<Vec<Passage>, RetrievalError> {
        if passages.is_empty() {
            return Ok(Vec::new());
        }
        let entry = |passage: &Passage| Entry::Scored {
            document: Found { id: passage.id.clone(), contents: passage.contents.clone() },
            score: passage.score,
        };
        let request = Request {
            queries: [query],
            documents: [passages.iter().map(entry).collect()],
            rerank_topk: topk,
            return_scores: true,
        };
        self.server.ask(&request, |response| ranked(response, passages, topk))
    }
}

impl<R: Retriever> Retriever for Reranked<R> {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        if topk == 0 {
            return Ok(vec![Vec::new(); queries.len()]);
        }
        let found = self.inner.retrieve(queries, self.candidates.max(topk))?;
        let jobs: Vec<(&str, Vec<Passage>)> = queries.iter().copied().zip(found).collect();
        self.server.each(&jobs, |(query, passages)| self.rerank(query, passages, topk))
    }
}

/// The passages that an answer names, best first.
fn ranked(response: Response, passages: &[Passage], topk: usize) -> Result<Vec<Passage>, String> {
    let [list] = <[Vec<Ranked>; 1]>::try_from(response.result)
        .map_err(|lists| format!("it answered 1 query by {} lists", lists.len()))?;
    let mut left: Vec<&Passage> = passages.iter().collect();
    let mut best = Vec::with_capacity(list.len());
    for Ranked { document, score } in list {
        let place = left.iter().position(|passage| document.names(passage));
        let place = place.ok_or("its answer holds a passage that it was not asked about")?;
        best.push(Passage { score, ..left.remove(place).clone() });
    }
    // Stable. Servers sort by themselves; that is not left to trust.
    best.sort_by(|a, b| b.score.total_cmp(&a.score));
    best.truncate(topk);
    Ok(best)
}

impl Named {
    fn names(&self, passage: &Passage) -> bool {
        match self {
            Self::Document(found) => found.id == passage.id && found.contents == passage.contents,
            Self::Text(text) => {
                *text == passage.contents
                    || *text == format!("(Title: {}) {}", passage.title(), passage.text())
            }
        }
    }
}
