//! Loads a retrieval server and prints what that was like for its clients.
//!
//! ```sh
//! rex serve --index DIR &
//! cargo run --release --workspace --example serve_load -- http://127.0.0.1:8000/retrieve < queries.txt
//! ```
//!
//! 64 clients, each with one connection, send 200 requests of 8 queries one after another and check every answer.

use serde_json::{Value, json};
use std::io::{BufRead, stdin};
use std::thread;
use std::time::{Duration, Instant};

const CLIENTS: usize = 64;
const REQUESTS: usize = 200;
const QUERIES: usize = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("serve_load URL < QUERIES")?;
    let queries = stdin().lock().lines().collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let answers: Vec<Result<Duration, String>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn({
                    let (url, queries) = (&url, &queries);
                    move || run(url, queries, client)
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client does not panic")).collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let errors: Vec<&String> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    let mut times: Vec<Duration> =
        answers.iter().filter_map(|answer| answer.as_ref().ok()).copied().collect();
    times.sort_unstable();
    println!(
        "{} requests of {QUERIES} queries by {CLIENTS} clients in {seconds:.1} s: {} errors",
        answers.len(),
        errors.len()
    );
    if let Some(error) = errors.first() {
        println!("the first: {error}");
    }
    if !times.is_empty() {
        let percentile = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        let rate = (times.len() * QUERIES) as f64 / seconds;
        let (p50, p99, longest) = (percentile(0.5), percentile(0.99), percentile(1.0));
        println!("{rate:.0} queries a second; p50 {p50:.0} ms, p99 {p99:.0} ms, longest {longest:.0} ms");
    }
    Ok(())
}

fn run(url: &str, queries: &[String], client: usize) -> Vec<Result<Duration, String>> {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let request = |number: usize| {
        let asked: Vec<&str> = queries
            .iter()
            .cycle()
            .skip((client * REQUESTS + number) * QUERIES % queries.len().max(1))
            .take(QUERIES)
            .map(String::as_str)
            .collect();
        let body = json!({"queries": asked, "topk": 3, "return_scores": true}).to_string();
        let start = Instant::now();
        let mut response = agent.post(url).send(body.as_bytes()).map_err(|error| error.to_string())?;
        let text = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
        let took = start.elapsed();
        let lists = serde_json::from_str::<Value>(&text)
            .ok()
            .and_then(|answer| answer["result"].as_array().map(Vec::len));
        if lists == Some(asked.len()) { Ok(took) } else { Err(format!("{}: {text}", response.status())) }
    };
    (0..REQUESTS).map(request).collect()
}
