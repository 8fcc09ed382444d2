//! A retrieval server as a retriever: batches, a few requests at once, time-outs, retries.

use rex_rollout::retrieval::contract::{Entry, Request, Response};
use rex_rollout::{Passage, RetrievalError, Retriever};
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use ureq::Agent;
use ureq::http::StatusCode;

/// How a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteSettings {
    /// For one request, its answer included.
    pub timeout: Duration,
    /// How often a request that failed is sent again.
    pub retries: u32,
    /// Most queries in a request.
    pub batch_size: usize,
    /// Most requests at once.
    pub concurrency: usize,
    /// Wait before the first retry; each further one waits twice as long as the one before, up to [`LONGEST_WAIT`].
    pub backoff: Duration,
}

/// Nobody waits longer than this between two tries, whatever the server says.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// An answer that does not end is an error.
const MAX_ANSWER_BYTES: u64 = 1 << 30;

/// One server of the `/retrieve` contract.
pub struct RemoteRetriever {
    agent: Agent,
    url: String,
    settings: RemoteSettings,
}

/// Why a request came to nothing.
struct Failure {
    message: String,
    /// Whether the same request may succeed later, and how long the server asks to wait.
    again: Option<Duration>,
}

impl RemoteRetriever {
    /// `url` with its path, which is `/retrieve` where it has none.
    pub fn new(url: &str, settings: RemoteSettings) -> Self {
        let has_path =
            url.split_once("://").is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
        let url = if has_path { url.to_string() } else { format!("{}/retrieve", url.trim_end_matches('/')) };
        let config = Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            .max_idle_connections_per_host(settings.concurrency)
            .build();
        Self { agent: config.new_agent(), url, settings }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The answer to one request, after as many tries as it takes.
    fn ask(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        let queries = queries.iter().map(|query| query.to_string()).collect();
        let request = Request { queries, topk: Some(topk), return_scores: true };
        let mut backoff = self.settings.backoff;
        for retry in 0.. {
            let failure = match self.send(&request) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let Some(wait) = failure.again.filter(|_| retry < self.settings.retries) else {
                let tries = if retry > 0 { format!(" ({} tries)", retry + 1) } else { String::new() };
                let message = format!("{}{tries}", failure.message);
                return Err(RetrievalError::Server { url: self.url.clone(), message });
            };
            thread::sleep(wait.max(backoff).min(LONGEST_WAIT));
            backoff = backoff.saturating_mul(2);
        }
        unreachable!("the last retry returns")
    }

    fn send(&self, request: &Request) -> Result<Vec<Vec<Passage>>, Failure> {
        let lost = |error: ureq::Error| Failure { message: error.to_string(), again: Some(Duration::ZERO) };
        let body = serde_json::to_vec(request).expect("strings and numbers");
        let sent = self.agent.post(&self.url).header("content-type", "application/json").send(&body[..]);
        let mut response = sent.map_err(lost)?;
        let status = response.status();
        let later = response.headers().get("retry-after").and_then(|wait| wait.to_str().ok()?.parse().ok());
        let answer = response.body_mut().with_config().limit(MAX_ANSWER_BYTES).read_to_vec().map_err(lost)?;
        if !status.is_success() {
            let may_pass = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            let message = format!("{status}: {}", reason(&answer));
            return Err(Failure {
                message,
                again: may_pass.then(|| Duration::from_secs(later.unwrap_or(0))),
            });
        }
        passages(&answer, request).map_err(|message| Failure { message, again: None })
    }
}

impl Retriever for RemoteRetriever {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        let batches: Vec<&[&str]> = queries.chunks(self.settings.batch_size).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            let mut answers = Vec::new();
            while let index = next.fetch_add(1, Ordering::Relaxed)
                && let Some(batch) = batches.get(index)
            {
                answers.push((index, self.ask(batch, topk)?));
            }
            Ok(answers)
        };
        let mut answers = Vec::with_capacity(batches.len());
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..self.settings.concurrency.min(batches.len())).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                let answered: Result<Vec<_>, RetrievalError> = worker.join().expect("asking does not panic");
                answers.extend(answered?);
            }
            Ok::<_, RetrievalError>(())
        })?;
        answers.sort_unstable_by_key(|(index, _)| *index);
        Ok(answers.into_iter().flat_map(|(_, lists)| lists).collect())
    }
}

/// Reads an answer. A passage without a score gets `NaN`: its place in the list is all that is known.
fn passages(answer: &[u8], request: &Request) -> Result<Vec<Vec<Passage>>, String> {
    let response: Response = serde_json::from_slice(answer).map_err(|error| {
        format!("its answer is not of the /retrieve contract: {error}; {}", reason(answer))
    })?;
    let (lists, queries) = (response.result.len(), request.queries.len());
    if lists != queries {
        return Err(format!("it answered {queries} queries by {lists} lists"));
    }
    let passage = |entry: Entry| {
        let (document, score) = entry.into_parts();
        Passage { id: document.id, contents: document.contents, score: score.unwrap_or(f32::NAN) }
    };
    let topk = request.topk.unwrap_or(usize::MAX);
    Ok(response.result.into_iter().map(|list| list.into_iter().take(topk).map(passage).collect()).collect())
}

/// What the server itself says is wrong: FastAPI's and our `detail`, or the text as it is.
fn reason(answer: &[u8]) -> String {
    const SHOWN: usize = 300;
    let json: Option<Value> = serde_json::from_slice(answer).ok();
    let detail =
        json.as_ref().and_then(|json| ["detail", "error", "message"].iter().find_map(|key| json.get(key)));
    let text = match detail {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::from_utf8_lossy(answer).into_owned(),
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "it gave no reason".to_string(),
        None => text,
    }
}
