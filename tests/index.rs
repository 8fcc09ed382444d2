//! `rex index` as a program: what survives a kill, and what its reports say.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn rex(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rex")).args(words).output().unwrap()
}

fn json(words: &[&str]) -> Vec<Value> {
    let output = rex(&[&["--json"], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn asset(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/mini").join(name).display().to_string()
}

#[cfg(unix)]
#[test]
fn a_killed_build_leaves_the_old_index() {
    use std::io::Write;
    use std::process::Stdio;

    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (index, corpus, pipe) = (path("index"), path("corpus.jsonl"), path("pipe"));
    let passage =
        |n: usize, word: &str| format!("{{\"id\": \"{n}\", \"contents\": \"\\\"T\\\"\\n{word} {n}\"}}\n");
    let old: String = (0..50).map(|n| passage(n, "old")).collect();
    fs::write(&corpus, old).unwrap();
    let build = |corpus: &str| rex(&["index", "build", "--corpus", corpus, "--out", &index]);
    assert!(build(&corpus).status.success());

    // A corpus that never ends: the build is under way for as long as we like.
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut process = Command::new(env!("CARGO_BIN_EXE_rex"))
        .args(["index", "build", "--corpus", &pipe, "--out", &index])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut corpus_end = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    // More than the pipe and the reader hold, so that passages have reached the index when all are written.
    for n in 0..20_000 {
        corpus_end.write_all(passage(n, "new").as_bytes()).unwrap();
    }
    assert!(folder.path().join("index.partial").exists(), "a build is under way");
    process.kill().unwrap();
    assert!(!process.wait().unwrap().success());

    let found = |word: &str| {
        let answers = json(&["index", "search", "--index", &index, "--topk", "100", word]);
        answers[0]["result"].as_array().unwrap().len()
    };
    assert_eq!((found("old"), found("new")), (50, 0));
    fs::write(&corpus, passage(0, "new")).unwrap();
    assert!(build(&corpus).status.success());
    assert_eq!((found("old"), found("new")), (0, 1));
    assert!(!folder.path().join("index.partial").exists());
}

#[test]
fn stats_and_coverage() {
    let folder = TempDir::new().unwrap();
    let index = folder.path().join("index").display().to_string();
    json(&["index", "build", "--corpus", &asset("mini_corpus.jsonl"), "--out", &index]);

    let stats = &json(&["index", "stats", &index])[0];
    assert_eq!(stats["passages"], 608);
    let sizes = ["text_bytes", "posting_bytes"].map(|name| stats[name].as_u64().unwrap());
    let on_disk: u64 =
        fs::read_dir(&index).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    assert!(sizes.iter().sum::<u64>() > on_disk * 9 / 10, "{sizes:?} of {on_disk}");

    // The recall of crates/rollout/tests/retrieval.rs; every supporting passage of these questions is in their corpus.
    let coverage = &json(&["index", "coverage", "--index", &index, &asset("mini_questions.jsonl")])[0];
    assert_eq!((&coverage["questions"], &coverage["gold_in_corpus"]), (&60.into(), &60.into()));
    let recall = |cut: usize| coverage["found"]["bm25"]["recall"][cut].as_f64().unwrap();
    assert!((recall(0) - 0.5667).abs() < 1e-3 && (recall(1) - 0.7681).abs() < 1e-3, "{coverage}");
    let output = rex(&["index", "coverage", "--index", &index, &asset("mini_questions.jsonl")]);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("mini_questions") && table.contains("0.567") && table.contains("in corpus:"),
        "{table}"
    );
}
