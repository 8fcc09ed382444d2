//! BM25 search on one thread: the 60 multi-hop questions of `assets/mini` over its 608 passages, the 3 and the 10 best, texts
//! fetched. Times are for all 60.

use criterion::{Criterion, criterion_group, criterion_main};
use rex_rollout::retrieval::{Bm25Index, Document};
use serde_json::Value;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

fn lines(file: &str) -> Vec<Value> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../assets/mini", file].iter().collect();
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn search(criterion: &mut Criterion) {
    let documents = lines("mini_corpus.jsonl").into_iter();
    let index = Bm25Index::in_memory(documents.map(|line| serde_json::from_value::<Document>(line).unwrap()))
        .unwrap();
    let questions = lines("mini_questions.jsonl");
    let queries: Vec<&str> = questions.iter().map(|row| row["question"].as_str().unwrap()).collect();
    for k in [3, 10] {
        criterion.bench_function(&format!("mini, best {k}"), |bencher| {
            bencher.iter(|| {
                queries.iter().map(|query| index.search(black_box(query), k).unwrap().len()).sum::<usize>()
            });
        });
    }
}

criterion_group!(benches, search);
criterion_main!(benches);
