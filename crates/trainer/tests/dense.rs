//! Dense and hybrid search over an index with vectors, made by the tiny encoder of rex-model's fixtures.

use burn::tensor::Device;
use rex_model::{SentenceEncoder, TextKind};
use rex_rollout::Retriever;
use rex_rollout::retrieval::{Bm25Index, Document, IndexBuilder};
use rex_trainer::data::read_corpus;
use rex_trainer::retrieval::{Method, local, write_graph, write_vectors};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn encoder() -> PathBuf {
    repository("crates/model/tests/fixtures/bert")
}

fn build(folder: &Path, documents: &[Document]) -> Arc<Bm25Index> {
    let mut builder = IndexBuilder::create(folder).unwrap();
    documents.iter().for_each(|document| builder.add(document.clone()).unwrap());
    Arc::new(builder.finish().unwrap())
}

fn mini() -> Vec<Document> {
    read_corpus(&[repository("assets/mini/mini_corpus.jsonl")]).unwrap()
}

#[test]
fn the_nearest_passages_are_found() {
    let folder = TempDir::new().unwrap();
    let (folder, device) = (folder.path().join("index"), Device::flex());
    let documents = mini();
    let index = build(&folder, &documents);
    let mut done = 0;
    write_vectors(&folder, &index, &encoder(), &device, &mut |count| done = count).unwrap();
    assert_eq!(done, 608);

    let network = SentenceEncoder::load(&encoder(), &device).unwrap();
    let texts: Vec<&str> = documents.iter().map(|document| document.contents.as_str()).collect();
    let vectors = network.encode(&texts, TextKind::Passage);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let dense = local(index.clone(), &folder, Method::Dense, &device).unwrap();
    let queries =
        ["who directed the film", "a city in the north", "", "\u{0}\u{10FFFF} 👩‍🚀", &"word ".repeat(100_000)];
    let found = dense.retrieve(&queries, 5).unwrap();
    for (query, found) in network.encode(&queries, TextKind::Query).iter().zip(&found) {
        let mut exact: Vec<f32> = vectors.iter().map(|vector| dot(query, vector)).collect();
        for passage in found {
            // Vectors are stored in a byte a number.
            let place = documents.iter().position(|document| document.contents == passage.contents).unwrap();
            assert!((passage.score - exact[place]).abs() < 0.01, "{} is not {}", passage.score, exact[place]);
        }
        exact.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(found.len(), 5);
        assert!(found.is_sorted_by(|a, b| a.score >= b.score));
        assert!(found.iter().zip(&exact).all(|(passage, exact)| (passage.score - exact).abs() < 0.01));
    }
    // A passage is the nearest to itself.
    let own = dense.retrieve(&[texts[17]], 1).unwrap();
    assert_eq!(own[0][0].contents, texts[17]);
    assert_eq!(dense.retrieve(&["a"], 1_000_000).unwrap()[0].len(), 608);
    assert!(dense.retrieve(&["a"], 0).unwrap()[0].is_empty() && dense.retrieve(&[], 3).unwrap().is_empty());

    let hybrid = local(index.clone(), &folder, Method::Hybrid, &device).unwrap();
    let fused = hybrid.retrieve(&["who directed the film", ""], 5).unwrap();
    assert_eq!(fused.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5]);
    let words = index.retrieve(&["who directed the film"], 50).unwrap().concat();
    let meaning = dense.retrieve(&["who directed the film"], 50).unwrap().concat();
    let rank = |list: &[rex_rollout::Passage], id: &str| {
        list.iter().position(|passage| passage.id == id).map_or(0.0, |rank| 1.0 / (61.0 + rank as f32))
    };
    for passage in &fused[0] {
        let expected = rank(&words, &passage.id) + rank(&meaning, &passage.id);
        assert!(
            (passage.score - expected).abs() < 1e-6,
            "{}: {} is not {expected}",
            passage.id,
            passage.score
        );
    }
}

#[test]
fn a_graph_finds_nearly_the_same() {
    let folder = TempDir::new().unwrap();
    let (folder, device) = (folder.path().join("index"), Device::flex());
    let documents = mini();
    let index = build(&folder, &documents);
    write_vectors(&folder, &index, &encoder(), &device, &mut |_| {}).unwrap();
    let open = || local(index.clone(), &folder, Method::Dense, &device);
    let queries: Vec<&str> = documents.iter().step_by(3).map(|document| document.contents.as_str()).collect();
    let ask = || open().unwrap().retrieve(&queries, 10).unwrap();
    let exact = ask();

    let mut done = 0;
    write_graph(&folder, &index, &mut |count| done = count).unwrap();
    assert_eq!(done, documents.len());
    let found = ask();
    let mut equal = 0;
    for (found, exact) in found.iter().zip(&exact) {
        assert_eq!((found.len(), found.is_sorted_by(|a, b| a.score >= b.score)), (10, true));
        equal += found.iter().filter(|passage| exact.contains(passage)).count();
    }
    let recall = equal as f64 / (10 * queries.len()) as f64;
    println!("recall {recall:.4}");
    assert!(recall > 0.97, "recall {recall}");
    assert!(open().unwrap().retrieve(&["a"], 0).unwrap()[0].is_empty());
    assert_eq!(open().unwrap().retrieve(&["a"], 1_000_000).unwrap()[0].len(), 608);

    let file = folder.join("vectors.usearch");
    let whole = fs::read(&file).unwrap();
    for kept in [0, 1, 100, whole.len() / 2] {
        fs::write(&file, &whole[..kept]).unwrap();
        let error = open().err().expect("an error").to_string();
        assert!(
            error.contains("vectors.usearch") && error.contains("build it again"),
            "{kept} bytes: {error}"
        );
    }
    // New vectors do away with the graph over the old ones.
    write_vectors(&folder, &index, &encoder(), &device, &mut |_| {}).unwrap();
    assert!(!file.exists() && ask() == exact);
}

#[test]
fn vectors_belong_to_their_index() {
    let folder = TempDir::new().unwrap();
    let (folder, device) = (folder.path().join("index"), Device::flex());
    let documents = &mini()[..20];
    let index = build(&folder, documents);
    let refused = |index: &Arc<Bm25Index>| {
        let opened = local(index.clone(), &folder, Method::Dense, &device);
        opened.err().expect("an error").to_string()
    };
    assert!(refused(&index).contains("holds no vectors; build it with `rex index build --encoder`"));
    write_vectors(&folder, &index, &encoder(), &device, &mut |_| {}).unwrap();
    local(index.clone(), &folder, Method::Dense, &device).unwrap();
    // Another process finds the same vectors, in the same order.
    let opened = Arc::new(Bm25Index::open(&folder).unwrap());
    let ask = |index: &Arc<Bm25Index>| {
        local(index.clone(), &folder, Method::Dense, &device).unwrap().retrieve(&["film"], 20).unwrap()
    };
    assert_eq!(ask(&opened), ask(&index));

    let file = folder.join("vectors.rex");
    let whole = fs::read(&file).unwrap();
    for kept in [0, 1, 4096, 8192, whole.len() - 1] {
        fs::write(&file, &whole[..kept]).unwrap();
        assert!(refused(&index).contains("is damaged or incomplete"), "{kept} bytes: {}", refused(&index));
    }
    fs::write(&file, b"x".repeat(whole.len())).unwrap();
    assert!(refused(&index).contains("not a file of vectors"));
    fs::write(&file, &whole).unwrap();
    let again = build(&folder, documents);
    assert!(refused(&again).contains("made for another index"));
    local(again, &folder, Method::Bm25, &device).unwrap();
}
