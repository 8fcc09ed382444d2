//! A server that answers JSON by JSON: time-outs, retries, its own words when it refuses.

use rex_rollout::RetrievalError;
use serde::Serialize;
use serde::de::DeserializeOwned;
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

/// One server, asked at one URL.
pub(super) struct Server {
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

impl Server {
    /// `url` with its path, which is `path` where it has none.
    pub(super) fn new(url: &str, path: &str, settings: RemoteSettings) -> Self {
        let has_path =
            url.split_once("://").is_some_and(|(_, rest)| rest.trim_end_matches('/').contains('/'));
        let url = if has_path { url.to_string() } else { format!("{}{path}", url.trim_end_matches('/')) };
        let config = Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            .max_idle_connections_per_host(settings.concurrency)
            .build();
        Self { agent: config.new_agent(), url, settings }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn settings(&self) -> RemoteSettings {
        self.settings
    }

    /// The answer to one request, after as many tries as it takes; `read` says what is wrong with one out of the contract.
    pub(super) fn ask<A: DeserializeOwned, T>(
        &self,
        request: &impl Serialize,
        read: impl Fn(A) -> Result<T, String>,
    ) -> Result<T, RetrievalError> {
        let request = serde_json::to_vec(request).expect("strings and numbers");
        let mut backoff = self.settings.backoff;
        for retry in 0.. {
            let failure = match self.send(&request, &read) {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let Some(wait) = failure.again.filter(|_| retry < self.settings.retries) else {
                let tries = if retry > 0 { format!(" ({} tries)", retry + 1) } else { String::new() };
                return Err(self.failed(format!("{}{tries}", failure.message)));
            };
            thread::sleep(wait.max(backoff).min(LONGEST_WAIT));
            backoff = backoff.saturating_mul(2);
        }
        unreachable!("the last retry returns")
    }

    /// The answers to several requests, in their order, a few of them under way at once.
    pub(super) fn each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        ask: impl Fn(&J) -> Result<T, RetrievalError> + Sync,
    ) -> Result<Vec<T>, RetrievalError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut answers = Vec::new();
            while let index = next.fetch_add(1, Ordering::Relaxed)
                && let Some(job) = jobs.get(index)
            {
                answers.push((index, ask(job)?));
            }
            Ok(answers)
        };
        let mut answers = Vec::with_capacity(jobs.len());
        thread::scope(|scope| {
            let workers: Vec<_> =
                (0..self.settings.concurrency.min(jobs.len())).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                let answered: Result<Vec<_>, RetrievalError> = worker.join().expect("asking does not panic");
                answers.extend(answered?);
            }
            Ok::<_, RetrievalError>(())
        })?;
        answers.sort_unstable_by_key(|(index, _)| *index);
        Ok(answers.into_iter().map(|(_, answer)| answer).collect())
    }

    fn failed(&self, message: String) -> RetrievalError {
        RetrievalError::Server { url: self.url.clone(), message }
    }

    fn send<A: DeserializeOwned, T>(
        &self,
        request: &[u8],
        read: &impl Fn(A) -> Result<T, String>,
    ) -> Result<T, Failure> {
        let lost = |error: ureq::Error| Failure { message: error.to_string(), again: Some(Duration::ZERO) };
        let sent = self.agent.post(&self.url).header("content-type", "application/json").send(request);
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
        let parsed = serde_json::from_slice(&answer)
            .map_err(|error| format!("its answer is not of the contract: {error}; {}", reason(&answer)));
        parsed.and_then(read).map_err(|message| Failure { message, again: None })
    }
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
