//! `rex serve` over HTTP: the contract, what it refuses, and that it answers whatever it is asked.

use proptest::prelude::*;
use rex_rollout::Retriever;
use rex_rollout::retrieval::Bm25Index;
use rex_trainer::retrieval::{RemoteRetriever, RemoteSettings};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

/// The mini corpus, indexed once.
static INDEX: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("serve-index");
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/mini/mini_corpus.jsonl");
    let built = rex().args(["index", "build", "--corpus"]).arg(corpus).arg("--out").arg(&folder).output();
    assert!(built.unwrap().status.success());
    folder
});

fn rex() -> Command {
    Command::new(env!("CARGO_BIN_EXE_rex"))
}

struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(words: &[&str]) -> Self {
        let mut process = rex()
            .args(["--json", "serve", "--port", "0", "--index"])
            .arg(&*INDEX)
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["passages"], 608);
        Self { process, url: ready["url"].as_str().unwrap().to_string() }
    }

    fn post(&self, body: &[u8]) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut response = agent.post(&self.url).send(body).unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap())
    }

    fn get(&self, path: &str) -> String {
        let url = self.url.replace("/retrieve", path);
        ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap()
    }

    /// Sends a request by hand, without its end; a server that reads on keeps it under way.
    fn begin(&self, length: usize, body: &str) -> TcpStream {
        let address = self.url.strip_prefix("http://").unwrap().strip_suffix("/retrieve").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /retrieve HTTP/1.1\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all((head + body).as_bytes()).unwrap();
        stream
    }

    fn client(&self) -> RemoteRetriever {
        let settings = RemoteSettings {
            timeout: Duration::from_secs(60),
            retries: 20,
            batch_size: 64,
            concurrency: 4,
            backoff: Duration::from_millis(10),
        };
        RemoteRetriever::new(&self.url, settings)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn all_of(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_contract() {
    let server = Server::start(&[]);
    let index = Bm25Index::open(&INDEX).unwrap();
    for queries in [vec!["film", "king of Ur"], vec!["film", "zzzzqqqq xyzzy", "river"], vec![]] {
        for return_scores in [true, false] {
            for (topk, expected) in [(json!(null), 3), (json!(5), 5), (json!(0), 0), (json!(1_000_000), 100)]
            {
                let request = json!({"queries": queries, "topk": topk, "return_scores": return_scores});
                let (status, answer) = server.post(request.to_string().as_bytes());
                assert_eq!(status, 200, "{request}: {answer}");
                let shape = |list: Vec<rex_rollout::Passage>| -> Value {
                    let entry = |passage: &rex_rollout::Passage| {
                        let document = json!({"id": passage.id, "contents": passage.contents});
                        if return_scores {
                            // The shortest decimal of an f32 is not that of the same number as f64.
                            let score: Value = serde_json::from_str(&passage.score.to_string()).unwrap();
                            json!({"document": document, "score": score})
                        } else {
                            document
                        }
                    };
                    list.iter().map(entry).collect()
                };
                let lists = index.retrieve(&queries, expected).unwrap();
                assert_eq!(
                    answer,
                    json!({"result": lists.into_iter().map(shape).collect::<Value>()}),
                    "{request}"
                );
            }
        }
    }
    let (_, answer) = server.post(br#"{"queries": ["film"]}"#);
    assert_eq!(answer["result"][0].as_array().unwrap().len(), 3);
    assert!(answer["result"][0][0]["contents"].is_string());
}

#[test]
fn refusals_have_a_reason() {
    let server = Server::start(&["--max-queries", "2", "--max-body", "1"]);
    let check = |body: &str, status: u16, reason: &str| {
        let (found, answer) = server.post(body.as_bytes());
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert_eq!(found, status, "{body}: {detail}");
        assert!(detail.contains(reason), "{body}: {detail:?} does not say {reason:?}");
    };
    check("", 400, "EOF");
    check("{\"queries\": [\"a\"", 400, "line 1");
    check("{\"queries\": []} trailing", 400, "trailing");
    check("queries=a", 400, "expected value");
    check("[]", 422, "expected struct");
    check("{}", 422, "missing field `queries`");
    check("{\"queries\": \"a\"}", 422, "queries: invalid type: string \"a\", expected a list of strings");
    check("{\"queries\": [\"a\", 7]}", 422, "queries[1]: invalid type: integer `7`, expected a string");
    check("{\"queries\": [null]}", 422, "queries[0]: invalid type: null");
    check("{\"queries\": [], \"topk\": \"3\"}", 422, "topk: invalid type: string \"3\"");
    check("{\"queries\": [], \"topk\": -1}", 422, "topk: invalid value: integer `-1`");
    check("{\"queries\": [], \"topk\": 1.5}", 422, "topk: ");
    check("{\"queries\": [], \"return_scores\": \"yes\"}", 422, "return_scores: ");
    check("{\"queries\": [\"a\", \"b\", \"c\"]}", 422, "3 queries in one request, at most 2");
    assert_eq!(server.post(b"{\"queries\": [\"\xff\"]}").0, 200, "bytes that are no text are text with gaps");
    assert_eq!(server.post(br#"{"queries": ["half \ud83c"]}"#).0, 200);

    let text = all_of(server.begin(1 << 30, ""));
    assert!(text.starts_with("HTTP/1.1 413 ") && text.contains("the body exceeds 1 MiB"), "{text}");
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    for (path, status) in [("/retrieve", 405), ("/", 404)] {
        let mut response = agent.get(server.url.replace("/retrieve", path)).call().unwrap();
        assert_eq!(response.status(), status);
        assert!(response.body_mut().read_to_string().unwrap().contains("\"detail\":\""));
    }
}

#[test]
fn recorded_queries_are_answered() {
    let server = Server::start(&[]);
    let index = Bm25Index::open(&INDEX).unwrap();
    let lines = include_str!("fixtures/cases/queries.jsonl").lines();
    let queries: Vec<String> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let expected = index.retrieve(&queries, 3).unwrap();
    assert_eq!(server.client().retrieve(&queries, 3).unwrap(), expected, "all at once");
    for (query, expected) in queries.iter().zip(&expected) {
        assert_eq!(
            server.client().retrieve(&[query], 3).unwrap(),
            std::slice::from_ref(expected),
            "{query:?}"
        );
    }

    let lines: String = queries.iter().map(|query| json!(query).to_string() + "\n").collect();
    let mut search = rex()
        .args(["--json", "index", "search", "--index"])
        .arg(&*INDEX)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = search.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let output = search.wait_with_output().unwrap();
    writer.join().unwrap();
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), queries.len());
    for ((query, expected), answer) in queries.iter().zip(&expected).zip(&answers) {
        assert_eq!(answer["query"], *query);
        assert_eq!(answer["result"].as_array().unwrap().len(), expected.len(), "{query:?}");
    }
}

#[test]
fn random_bytes_are_answered() {
    let server = Server::start(&[]);
    let client = server.client();
    let bytes = proptest::collection::vec(any::<u8>(), 0..200);
    let batches = proptest::collection::vec(bytes.clone(), 200);
    // 10,000 queries.
    proptest!(ProptestConfig { cases: 50, ..ProptestConfig::default() }, |(batch in batches, topk in 0..200usize)| {
        let queries: Vec<_> = batch.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        let queries: Vec<&str> = queries.iter().map(|query| query.as_ref()).collect();
        let found = client.retrieve(&queries, topk).unwrap();
        prop_assert_eq!(found.len(), queries.len());
        prop_assert!(found.iter().all(|list| list.len() <= topk.min(100)));
    });
    // And as bodies, as they are or where a query should be.
    proptest!(|(bytes in bytes, wrapped in any::<bool>())| {
        let body = if wrapped { [b"{\"queries\":[\"", &bytes[..], b"\"]}"].concat() } else { bytes };
        let (status, answer) = server.post(&body);
        prop_assert!(matches!(status, 200 | 400 | 422), "{status}: {answer}");
    });
}

#[test]
fn health_and_metrics() {
    let server = Server::start(&[]);
    assert_eq!(server.get("/health"), "ok\n");
    server.post(br#"{"queries": ["film", "king"]}"#);
    server.post(b"nonsense");
    let metrics = server.get("/metrics");
    for line in [
        "rex_requests_total{code=\"200\"} 1",
        "rex_requests_total{code=\"400\"} 1",
        "rex_queries_total 2",
        "rex_requests_under_way 0",
        "rex_request_seconds_count 2",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} is missing in:\n{metrics}");
    }
}

#[test]
fn a_busy_server_says_so_and_clients_come_again() {
    let server = Server::start(&["--max-requests", "1"]);
    let body = json!({"queries": ["film"]}).to_string();
    let mut slow = server.begin(body.len(), &body[..5]);
    while !server.get("/metrics").contains("rex_requests_under_way 1") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (status, answer) = server.post(body.as_bytes());
    assert_eq!((status, answer["detail"].as_str().unwrap()), (503, "busy: 1 requests are under way"));
    std::thread::scope(|scope| {
        let client = scope.spawn(|| server.client().retrieve(&["film"], 3).unwrap());
        while !server.get("/metrics").contains("rex_requests_total{code=\"503\"} 2") {
            std::thread::sleep(Duration::from_millis(5));
        }
        slow.write_all(&body.as_bytes()[5..]).unwrap();
        assert!(all_of(slow).starts_with("HTTP/1.1 200 "));
        assert_eq!(client.join().unwrap()[0].len(), 3);
    });
}

#[test]
fn a_request_that_does_not_end_is_given_up() {
    let server = Server::start(&["--timeout", "1"]);
    let text = all_of(server.begin(100, "{"));
    assert!(text.starts_with("HTTP/1.1 503 ") && text.contains("gave up after 1 s"), "{text}");
}

#[cfg(unix)]
#[test]
fn it_stops_when_the_requests_under_way_are_answered() {
    for signal in ["-INT", "-TERM"] {
        let mut server = Server::start(&[]);
        let body = json!({"queries": ["film"]}).to_string();
        let mut slow = server.begin(body.len(), &body[..5]);
        while !server.get("/metrics").contains("rex_requests_under_way 1") {
            std::thread::sleep(Duration::from_millis(5));
        }
        let pid = server.process.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        while ureq::get(server.url.replace("/retrieve", "/health")).call().is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        slow.write_all(&body.as_bytes()[5..]).unwrap();
        assert!(all_of(slow).starts_with("HTTP/1.1 200 "));
        assert_eq!(server.process.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn what_cannot_be_served_is_a_message() {
    let check = |words: &[&str], expected: &str| {
        let output = rex().arg("serve").args(words).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(expected), "{message}");
    };
    check(&["--index", "no/such/index"], "no/such/index holds no index");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check(&["--index", INDEX.to_str().unwrap(), "--port", &port], "cannot listen on 127.0.0.1:");
}
