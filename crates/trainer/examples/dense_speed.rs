//! Dense search exact and through a graph, for the questions of a file: what the graph misses, and what it saves.
//!
//! ```sh
//! cargo run --release --workspace --example dense_speed -- INDEX QUESTIONS
//! ```
//!
//! INDEX was built with `--encoder`. The graph is written beside the vectors.

use burn::tensor::Device;
use rex_rollout::Retriever;
use rex_rollout::retrieval::Bm25Index;
use rex_trainer::data::read_questions;
use rex_trainer::retrieval::{Method, local, write_graph};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const K: usize = 10;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, questions] = &arguments[..] else { return Err("dense_speed INDEX QUESTIONS".into()) };
    let folder = Path::new(folder);
    let index = Arc::new(Bm25Index::open(folder)?);
    let questions = read_questions(Path::new(questions))?;
    let queries: Vec<&str> = questions.iter().map(|question| question.question.as_str()).collect();
    let ask = |name: &str| -> Result<_, Box<dyn std::error::Error>> {
        let retriever = local(index.clone(), folder, Method::Dense, &Device::flex())?;
        let start = Instant::now();
        let found = retriever.retrieve(&queries, K)?;
        println!(
            "{name}: {:.2} s for {} queries, encoding included",
            start.elapsed().as_secs_f64(),
            queries.len()
        );
        Ok(found)
    };
    let _ = std::fs::remove_file(folder.join("vectors.usearch"));
    let exact = ask("exact")?;
    let start = Instant::now();
    write_graph(folder, &index, &mut |_| {})?;
    println!("graph over {} vectors: {:.1} s", index.len(), start.elapsed().as_secs_f64());
    let found = ask("graph")?;
    let equal: usize = exact
        .iter()
        .zip(&found)
        .map(|(exact, found)| found.iter().filter(|passage| exact.contains(passage)).count())
        .sum();
    let all: usize = exact.iter().map(Vec::len).sum();
    println!("recall of the {K} best: {:.4}", equal as f64 / all as f64);
    Ok(())
}
