//! The BM25 index: what it finds, that it answers anything, and that it does not depend on how it was built.

#[path = "../../../tests/fixtures/recorded.rs"]
#[allow(dead_code, unreachable_pub)]
mod recorded;

use proptest::prelude::*;
use rex_rollout::retrieval::{Bm25Index, Document, IndexBuilder, IndexError, Passage, Retriever};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use tempfile::TempDir;

fn document(id: &str, contents: &str) -> Document {
    Document { id: id.to_string(), contents: contents.to_string() }
}

fn mini(file: &str) -> Vec<Value> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "../../assets/mini", file].iter().collect();
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn mini_corpus() -> Vec<Document> {
    mini("mini_corpus.jsonl").into_iter().map(|line| serde_json::from_value(line).unwrap()).collect()
}

static MINI: LazyLock<Bm25Index> = LazyLock::new(|| Bm25Index::in_memory(mini_corpus()).unwrap());

/// The words of the mini corpus, frequent and rare.
static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let text: String = mini_corpus().into_iter().map(|document| document.contents + " ").collect();
    text.split_whitespace().map(str::to_string).collect()
});

fn ids(passages: &[Passage]) -> Vec<&str> {
    passages.iter().map(|passage| passage.id.as_str()).collect()
}

fn in_folder(folder: &Path, documents: &[Document]) -> Bm25Index {
    let mut builder = IndexBuilder::create(folder).unwrap();
    documents.iter().for_each(|document| builder.add(document.clone()).unwrap());
    builder.finish().unwrap()
}

/// Every query of a list that exercises much of the index.
fn answers(index: &Bm25Index) -> Vec<Vec<Passage>> {
    let questions = mini("mini_questions.jsonl");
    let queries: Vec<&str> = questions.iter().map(|row| row["question"].as_str().unwrap()).collect();
    index.retrieve(&queries, 20).unwrap()
}

#[test]
fn scores_are_lucenes() {
    // N = 3, lengths 2, 2 and 4 (average 8/3), k1 = 0.9, b = 0.4.
    let index = Bm25Index::in_memory([
        document("a", "\"Ur\"\nzebra"),
        document("b", "\"Uruk\"\nlion"),
        document("c", "\"Lagash\"\nzebra zebra lion"),
    ])
    .unwrap();
    let idf = |df: f32| (1.0 + (3.0 - df + 0.5) / (df + 0.5)).ln();
    let tf = |tf: f32, length: f32| tf / (tf + 0.9 * (1.0 - 0.4 + 0.4 * length / (8.0 / 3.0)));
    let check = |query: &str, expected: &[(&str, f32)]| {
        let passages = index.search(query, 10).unwrap();
        assert_eq!(ids(&passages), expected.iter().map(|(id, _)| *id).collect::<Vec<_>>(), "{query}");
        for (passage, (_, score)) in passages.iter().zip(expected) {
            assert!((passage.score - score).abs() < 1e-6, "{query}: {} is not {score}", passage.score);
        }
    };
    check("Zebras", &[("c", idf(2.0) * tf(2.0, 4.0)), ("a", idf(2.0) * tf(1.0, 2.0))]);
    check("zebra zebra", &[("c", 2.0 * idf(2.0) * tf(2.0, 4.0)), ("a", 2.0 * idf(2.0) * tf(1.0, 2.0))]);
    check(
        "the lion of Uruk",
        &[("b", idf(2.0) * tf(1.0, 2.0) + idf(1.0) * tf(1.0, 2.0)), ("c", idf(2.0) * tf(1.0, 4.0))],
    );
    check("tiger", &[]);
}

#[test]
fn lengths_are_exact() {
    let filled = |filler: usize| document(&filler.to_string(), &format!("zebra{}", " lion".repeat(filler)));
    let documents: Vec<Document> = (100..200).rev().map(filled).collect();
    let folder = TempDir::new().unwrap();
    let folder = in_folder(&folder.path().join("index"), &documents);
    for index in [Bm25Index::in_memory(documents).unwrap(), folder] {
        let passages = index.search("zebra", 100).unwrap();
        assert!(passages.is_sorted_by(|a, b| a.score > b.score));
        assert!(ids(&passages).into_iter().eq((100..200).map(|filler| filler.to_string())));
    }
}

/// The share of the gold passages of the mini questions among the best `k`.
fn recall(index: &Bm25Index, k: usize) -> f64 {
    let questions = mini("mini_questions.jsonl");
    let share = |row: &Value| {
        let found = index.search(row["question"].as_str().unwrap(), k).unwrap();
        let gold = row["metadata"]["supporting_ids"].as_array().unwrap();
        let hits = gold.iter().filter(|id| ids(&found).contains(&id.as_str().unwrap())).count();
        hits as f64 / gold.len() as f64
    };
    questions.iter().map(share).sum::<f64>() / questions.len() as f64
}

#[test]
fn recall_on_the_mini_corpus() {
    // Recorded from this index.
    println!("recall@3 {:.4}, recall@10 {:.4}", recall(&MINI, 3), recall(&MINI, 10));
    assert!((recall(&MINI, 3) - 0.5667).abs() < 1e-3);
    assert!((recall(&MINI, 10) - 0.7681).abs() < 1e-3);
}

#[test]
fn recorded_queries_are_answered() {
    for query in recorded::cases("queries.jsonl") {
        let passages = MINI.search(query.as_str().unwrap(), 3).unwrap();
        assert!(passages.len() <= 3);
    }
}

#[test]
fn queries_are_text_not_syntax() {
    let same = |query: &str, plain: &str| {
        assert_eq!(MINI.search(query, 10).unwrap(), MINI.search(plain, 10).unwrap(), "{query}");
    };
    same("title:[film TO king]", "title film king");
    same("+film -king ~\"queen\"^3 (", "film king queen 3");
    same("FILM*", "film");
    same("fi\u{300}lm\0king", "film king");
}

#[test]
fn topk_is_clamped() {
    let count = |topk| MINI.search("film", topk).unwrap().len();
    let all = count(usize::MAX);
    assert!(all > 10 && all <= MINI.len() as usize);
    assert_eq!([count(0), count(1), count(all - 1), count(all), count(all + 1)], [0, 1, all - 1, all, all]);
}

#[test]
fn as_many_lists_as_queries() {
    let found = MINI.retrieve(&["film", "", "zzzzqqqq xyzzy", "the of"], 2).unwrap();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 0, 0]);
    assert!(MINI.retrieve(&[], 2).unwrap().is_empty());
}

proptest! {
    #[test]
    fn any_string_is_answered(query in any::<String>(), topk in any::<usize>()) {
        let passages = MINI.search(&query, topk).unwrap();
        prop_assert!(passages.len() <= topk);
        prop_assert!(passages.is_sorted_by(|a, b| a.score >= b.score));
        prop_assert!(passages.iter().all(|passage| passage.score > 0.0));
    }

    /// Passing over documents loses none: the best of a few are the first of all.
    #[test]
    fn the_best_are_the_first_of_all(words in proptest::collection::vec(0..WORDS.len(), 1..12), topk in 1..30usize) {
        let query = words.into_iter().map(|word| WORDS[word].as_str()).collect::<Vec<_>>().join(" ");
        let all = MINI.search(&query, usize::MAX).unwrap();
        prop_assert_eq!(&MINI.search(&query, topk).unwrap()[..], &all[..topk.min(all.len())]);
    }
}

#[test]
fn equal_scores_are_in_corpus_order() {
    let twins: Vec<_> = (0..5_000).map(|n| document(&n.to_string(), "\"Twin\"\nthe same text")).collect();
    let folder = TempDir::new().unwrap();
    for index in
        [Bm25Index::in_memory(twins.clone()).unwrap(), in_folder(&folder.path().join("index"), &twins)]
    {
        assert_eq!(ids(&index.search("twin", 3).unwrap()), ["0", "1", "2"]);
        assert_eq!(index.search("twin", 6_000).unwrap().len(), 5_000);
    }
}

#[test]
fn memory_folder_and_bytes_are_one_index() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path().join("index");
    let expected = answers(&MINI);
    assert!(answers(&in_folder(&folder, &mini_corpus())) == expected);
    let reopened = Bm25Index::open(&folder).unwrap();
    assert!(answers(&reopened) == expected);
    assert_eq!(reopened.len(), 608);
    for bytes in [MINI.to_bytes().unwrap(), reopened.to_bytes().unwrap()] {
        assert!(answers(&Bm25Index::from_bytes(&bytes).unwrap()) == expected);
    }
}

#[test]
fn an_empty_corpus_answers_nothing() {
    let folder = TempDir::new().unwrap();
    for index in [Bm25Index::in_memory([]).unwrap(), in_folder(&folder.path().join("index"), &[])] {
        assert!(index.is_empty());
        assert!(index.search("anything", 3).unwrap().is_empty());
        assert!(Bm25Index::from_bytes(&index.to_bytes().unwrap()).unwrap().is_empty());
    }
}

#[test]
fn a_build_replaces_the_old_index_at_once() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("index");
    let old = in_folder(&folder, &[document("old", "zebra")]);
    fs::write(folder.join("notes.txt"), "the user's").unwrap();
    let names = || {
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    let files = names().len();

    // Given up: the old one stays, nothing is left beside it.
    let mut builder = IndexBuilder::create(&folder).unwrap();
    builder.add(document("new", "zebra")).unwrap();
    assert!(parent.path().join("index.partial").exists());
    drop(builder);
    assert!(!parent.path().join("index.partial").exists());
    assert_eq!(ids(&Bm25Index::open(&folder).unwrap().search("zebra", 1).unwrap()), ["old"]);

    // Killed: what it left does not disturb the next build.
    fs::create_dir(parent.path().join("index.partial")).unwrap();
    fs::write(parent.path().join("index.partial/meta.json"), "half").unwrap();
    let new = in_folder(&folder, &[document("new", "zebra")]);
    assert_eq!(ids(&new.search("zebra", 1).unwrap()), ["new"]);
    assert_eq!(names().len(), files, "the old files are gone: {:?}", names());
    assert!(folder.join("notes.txt").exists());
    // Whoever may read the user's other files may read the index.
    let permissions = |name: &str| fs::metadata(folder.join(name)).unwrap().permissions();
    assert_eq!(permissions("meta.json"), permissions("notes.txt"));
    // Whoever had it open still reads the old one.
    if cfg!(unix) {
        assert_eq!(ids(&old.search("zebra", 1).unwrap()), ["old"]);
    }
}

#[test]
fn other_folders_are_refused() {
    let parent = TempDir::new().unwrap();
    let check = |found: Result<Bm25Index, IndexError>, expected: &str| {
        let message = found.err().expect("an error").to_string();
        assert!(message.contains(expected), "{message:?} does not say {expected:?}");
    };
    let folder = parent.path().join("thesis");
    check(
        Bm25Index::open(&folder),
        "thesis holds no index (no such folder); build one with `rex index build`",
    );
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("thesis.tex"), "").unwrap();
    check(Bm25Index::open(&folder), "thesis holds no index (no meta.json)");
    let create = |folder: &Path| IndexBuilder::create(folder).and_then(IndexBuilder::finish);
    check(create(&folder), "thesis holds files that are not an index; give a new or empty folder");
    check(create(&folder.join("thesis.tex")), "cannot write the index in");
    fs::write(folder.join("meta.json"), "{}").unwrap();
    check(Bm25Index::open(&folder), "thesis is damaged or incomplete");

    let foreign = parent.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    let schema = tantivy::schema::Schema::builder().build();
    tantivy::Index::create_in_dir(&foreign, schema).unwrap();
    check(Bm25Index::open(&foreign), "foreign was built by another version of Rex; build it again");
}

#[test]
fn a_truncated_file_is_a_message() {
    let parent = TempDir::new().unwrap();
    let folder = parent.path().join("index");
    in_folder(&folder, &mini_corpus());
    let mut checked = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        let whole = fs::read(&file).unwrap();
        if whole.is_empty() {
            continue; // a lock
        }
        for kept in [0, 1, whole.len() / 2, whole.len() - 2] {
            fs::write(&file, &whole[..kept]).unwrap();
            let error = Bm25Index::open(&folder).err().unwrap_or_else(|| panic!("{kept} bytes of {file:?}"));
            assert!(error.to_string().contains("is damaged or incomplete"), "{error}");
        }
        fs::write(&file, &whole).unwrap();
        checked += 1;
    }
    assert!(checked >= 6, "{checked} files");
    Bm25Index::open(&folder).unwrap();
}

#[test]
fn damaged_bytes_are_a_message() {
    let bytes =
        Bm25Index::in_memory([document("a", "zebra"), document("b", "lion")]).unwrap().to_bytes().unwrap();
    let refused = |bytes: &[u8]| Bm25Index::from_bytes(bytes).err().map(|error| error.to_string());
    assert!(refused(b"").unwrap().contains("these bytes holds no index"));
    assert!(refused(b"<!doctype html>").unwrap().contains("holds no index"));
    for kept in 0..bytes.len() {
        assert!(refused(&bytes[..kept]).is_some(), "{kept} of {} bytes", bytes.len());
    }
    for flipped in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[flipped] ^= 1;
        // A bit of metadata may not matter; what opens also answers.
        if let Ok(index) = Bm25Index::from_bytes(&bytes) {
            let _ = index.search("zebra", 3);
        }
    }
}
