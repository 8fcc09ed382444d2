//! The remote retriever against servers that do what servers do: answer, hesitate, fail, lie.

use rex_rollout::{Passage, RetrievalError, Retriever};
use rex_trainer::retrieval::{Cached, RemoteRetriever, RemoteSettings, Reranked, Shards};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const SETTINGS: RemoteSettings = RemoteSettings {
    timeout: Duration::from_secs(20),
    retries: 2,
    batch_size: 2,
    concurrency: 3,
    backoff: Duration::from_millis(1),
};

/// What a server does with a request.
enum Reply {
    /// Status, further headers, body.
    Answer(&'static str, &'static str, String),
    HangUp,
    Sleep,
}

/// A server on a free port; returns its address and the requests that came.
fn server(
    reply: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, reply) = (asked.clone(), Arc::new(reply));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (log, reply) = (log.clone(), reply.clone());
            thread::spawn(move || answer(stream.unwrap(), &log, &*reply));
        }
    });
    (url, asked)
}

fn answer(mut stream: TcpStream, log: &Mutex<Vec<Value>>, reply: &dyn Fn(usize, &Value) -> Reply) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        head += &line;
        let line = line.to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.trim().is_empty() {
            break;
        }
    }
    assert!(head.starts_with("POST /retrieve ") || head.starts_with("POST /rerank "), "{head}");
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let request: Value = serde_json::from_slice(&body).unwrap();
    let number = {
        let mut log = log.lock().unwrap();
        log.push(request.clone());
        log.len()
    };
    match reply(number, &request) {
        Reply::HangUp => {}
        Reply::Sleep => thread::sleep(Duration::from_secs(60)),
        Reply::Answer(status, headers, body) => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n"
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    }
}

fn ok(result: Value) -> Reply {
    Reply::Answer("200 OK", "", json!({ "result": result }).to_string())
}

/// Answers each query by a passage that is the query.
fn echo(request: &Value) -> Reply {
    let passage = |query: &Value| json!([{"document": {"id": query, "contents": query}, "score": 1.0}]);
    ok(request["queries"].as_array().unwrap().iter().map(passage).collect())
}

fn contents(lists: &[Vec<Passage>]) -> Vec<Vec<&str>> {
    lists.iter().map(|list| list.iter().map(|passage| passage.contents.as_str()).collect()).collect()
}

fn message(result: Result<Vec<Vec<Passage>>, RetrievalError>) -> String {
    result.expect_err("an error").to_string()
}

#[test]
fn queries_travel_in_batches_and_keep_their_order() {
    let (url, asked) = server(|_, request| echo(request));
    let remote = RemoteRetriever::new(&url, SETTINGS);
    let queries: Vec<String> = (0..7).map(|n| format!("query {n}")).collect();
    let queries: Vec<&str> = queries.iter().map(String::as_str).collect();
    let found = remote.retrieve(&queries, 5).unwrap();
    assert_eq!(contents(&found), queries.iter().map(|query| vec![*query]).collect::<Vec<_>>());
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|request| request["topk"] == 5 && request["return_scores"] == true));
    assert!(remote.retrieve(&[], 5).unwrap().is_empty());
}

#[test]
fn both_shapes_are_read() {
    let (url, _) = server(|_, _| {
        ok(json!([
            [{"id": 3, "contents": "first"}, {"contents": "second"}, {"id": "x", "contents": "one too many"}],
            [{"document": {"id": "7", "contents": "scored", "title": "t"}, "score": 2}],
        ]))
    });
    let found = RemoteRetriever::new(&url, SETTINGS).retrieve(&["a", "b"], 2).unwrap();
    assert_eq!(contents(&found), [vec!["first", "second"], vec!["scored"]]);
    assert_eq!((found[0][0].id.as_str(), found[1][0].score), ("3", 2.0));
}

#[test]
fn what_may_pass_is_tried_again() {
    let failures = [
        || Reply::Answer("429 Too Many Requests", "retry-after: 0\r\n", String::new()),
        || Reply::Answer("500 Internal Server Error", "", "boom".to_string()),
        || Reply::HangUp,
    ];
    for failure in failures {
        let (url, asked) = server(move |number, request| if number < 3 { failure() } else { echo(request) });
        let found = RemoteRetriever::new(&url, SETTINGS).retrieve(&["a"], 1).unwrap();
        assert_eq!((contents(&found), asked.lock().unwrap().len()), (vec![vec!["a"]], 3));
    }
}

#[test]
fn the_servers_own_words_are_in_the_message() {
    let check = |status: &'static str, body: &'static str, tries: usize, expected: &[&str]| {
        let (url, asked) = server(move |_, _| Reply::Answer(status, "", body.to_string()));
        let error = message(RemoteRetriever::new(&url, SETTINGS).retrieve(&["a"], 1));
        for part in expected.iter().chain(&[url.as_str()]) {
            assert!(error.contains(part), "{error:?} does not say {part:?}");
        }
        assert_eq!(asked.lock().unwrap().len(), tries, "{error}");
    };
    check("500 Internal Server Error", "index is gone", 3, &["500", "index is gone", "3 tries"]);
    check(
        "422 Unprocessable Entity",
        r#"{"detail": "topk is too large"}"#,
        1,
        &["422", ": topk is too large"],
    );
    check("422 Unprocessable Entity", r#"{"detail": [{"loc": ["body"]}]}"#, 1, &[r#"[{"loc":["body"]}]"#]);
    check("404 Not Found", "", 1, &["404", "it gave no reason"]);
    check("200 OK", "<html>login</html>", 1, &["not of the contract", "<html>login</html>"]);
    check("200 OK", r#"{"result": []}"#, 1, &["1 queries by 0 lists"]);
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let (url, _) = server(|_, _| Reply::Sleep);
    let settings = RemoteSettings { timeout: Duration::from_millis(100), retries: 1, ..SETTINGS };
    let start = Instant::now();
    let error = message(RemoteRetriever::new(&url, settings).retrieve(&["a"], 1));
    assert!(error.contains("timeout") && error.contains("2 tries"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(30));

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error =
        message(RemoteRetriever::new(&format!("http://{closed}/retrieve"), SETTINGS).retrieve(&["a"], 1));
    assert!(error.contains(&closed.to_string()) && error.contains("refused"), "{error}");
}

#[test]
fn shards_are_merged_by_score() {
    let shard = |passages: Value| server(move |_, _| ok(json!([passages.clone()]))).0;
    let passage = |id: &str, score: f64| json!({"document": {"id": id, "contents": id}, "score": score});
    let urls = [
        shard(json!([passage("a", 3.0), passage("b", 1.0)])),
        shard(json!([passage("c", 2.0), passage("d", 1.0)])),
        shard(json!([])),
    ];
    let shards = Shards::new(urls.iter().map(|url| RemoteRetriever::new(url, SETTINGS)).collect());
    assert_eq!(contents(&shards.retrieve(&["q"], 3).unwrap()), [["a", "c", "b"]]);
    let (broken, _) = server(|_, _| Reply::Answer("400 Bad Request", "", "no".to_string()));
    let urls = [urls[0].as_str(), broken.as_str()];
    let shards = Shards::new(urls.iter().map(|url| RemoteRetriever::new(url, SETTINGS)).collect());
    assert!(message(shards.retrieve(&["q"], 3)).contains("400"), "a part that fails is not passed over");
}

/// Counts what it is asked.
#[derive(Default)]
struct Counting(Mutex<Vec<String>>);

impl Retriever for &Counting {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        self.0.lock().unwrap().extend(queries.iter().map(|query| query.to_string()));
        let passage =
            |query: &&str| Passage { id: topk.to_string(), contents: query.to_string(), score: 1.0 };
        Ok(queries.iter().map(|query| vec![passage(query)]).collect())
    }
}

#[test]
fn equal_queries_are_asked_once() {
    let counting = Counting::default();
    let cached = Cached::new(&counting, NonZeroUsize::new(3).unwrap());
    let check = |queries: &[&str], topk: usize, asked: &[&str]| {
        let found = cached.retrieve(queries, topk).unwrap();
        assert_eq!(contents(&found), queries.iter().map(|query| vec![*query]).collect::<Vec<_>>());
        assert!(found.iter().all(|list| list[0].id == topk.to_string()));
        assert_eq!(std::mem::take(&mut *counting.0.lock().unwrap()), asked);
    };
    check(&["a", "b", "a", "", ""], 3, &["a", "b", ""]);
    check(&["b", "a"], 3, &[]);
    check(&["a"], 5, &["a"]);
    // The cache holds three answers: more at once than it holds, and the oldest asked again.
    check(&["c", "d", "e", "f", "c"], 3, &["c", "d", "e", "f"]);
    check(&["b"], 3, &["b"]);
    check(&[], 3, &[]);
}

/// Finds three passages for every query.
struct Three;

impl Retriever for Three {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        let passage = |query: &str, id: usize| Passage {
            id: id.to_string(),
            contents: format!("\"{query}\"\ntext {id}\nand more"),
            score: f32::NAN,
        };
        let list = |query: &&str| (0..3.min(topk)).map(|id| passage(query, id)).collect();
        Ok(queries.iter().map(list).collect())
    }
}

#[test]
fn a_server_ranks_again() {
    // As Search-R1's: the text that it read, best first.
    let read = |request: &Value, id: usize| {
        let query = request["queries"][0].as_str().unwrap();
        format!("(Title: \"{query}\") text {id}\nand more")
    };
    let (url, asked) = server(move |_, request| {
        let entry = |id, score: f64| json!({"document": read(request, id), "score": score});
        ok(json!([[entry(2, 5.5), entry(0, -3.0)]]))
    });
    let reranked = Reranked::new(Three, &url, SETTINGS, 10);
    let found = reranked.retrieve(&["a", "b", "c", "d"], 2).unwrap();
    let ids: Vec<Vec<&str>> =
        found.iter().map(|list| list.iter().map(|passage| passage.id.as_str()).collect()).collect();
    assert_eq!(ids, [["2", "0"]; 4]);
    assert!(
        found.iter().zip(["a", "b", "c", "d"]).all(|(list, query)| list[0].title() == format!("\"{query}\""))
    );
    assert_eq!((found[0][0].score, found[0][1].score), (5.5, -3.0));
    {
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 4, "a query a request");
        for request in asked.iter() {
            assert_eq!(request["queries"].as_array().unwrap().len(), 1);
            assert_eq!(request["documents"][0].as_array().unwrap().len(), 3);
            assert_eq!((&request["rerank_topk"], &request["return_scores"]), (&json!(2), &json!(true)));
        }
    }
    assert!(
        reranked.retrieve(&["a"], 0).unwrap()[0].is_empty() && reranked.retrieve(&[], 3).unwrap().is_empty()
    );
}

#[test]
fn a_reranking_servers_answer_is_checked() {
    let check = |answer: Value, expected: Result<&[&str], &str>| {
        let (url, _) = server(move |_, _| ok(answer.clone()));
        let found = Reranked::new(Three, &url, SETTINGS, 3).retrieve(&["q"], 2);
        match expected {
            Ok(ids) => {
                let found = found.unwrap();
                assert_eq!(found[0].iter().map(|passage| passage.id.as_str()).collect::<Vec<_>>(), ids);
            }
            Err(part) => {
                let error = message(found);
                assert!(error.contains(part) && error.contains(&url), "{error}");
            }
        }
    };
    let entry = |id: &str, score: f64| json!({"document": {"id": id, "contents": format!("\"q\"\ntext {id}\nand more")}, "score": score});
    // Documents instead of texts, in any order, and more than asked for.
    check(json!([[entry("0", 1.0), entry("2", 3.0), entry("1", 2.0)]]), Ok(&["2", "1"]));
    check(json!([[]]), Ok(&[]));
    check(json!([]), Err("1 query by 0 lists"));
    check(json!([[entry("7", 1.0)]]), Err("a passage that it was not asked about"));
    check(json!([[entry("1", 1.0), entry("1", 0.5)]]), Err("a passage that it was not asked about"));
    check(json!([["text without a score"]]), Err("not of the contract"));
}
