//! The walls between the crates hold: who may depend on whom, and where back ends may be named.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Normal dependencies of a workspace crate, transitively, by name.
fn dependencies(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "-p",
            package,
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().skip(1).filter_map(|line| line.split(' ').next().map(str::to_string)).collect()
}

fn check(package: &str, forbidden: &[&str]) {
    let found = dependencies(package);
    assert!(!found.is_empty(), "{package} has no dependency: is the query right?");
    for name in forbidden {
        assert!(!found.iter().any(|dependency| dependency == name), "{package} depends on {name}");
    }
}

#[test]
fn crates_import_only_what_they_may() {
    check("rex-model", &["rex-grpo", "rex-rollout", "rex-trainer", "tokio"]);
    check("rex-grpo", &["rex-model", "rex-rollout", "rex-trainer", "tokio", "tantivy"]);
    check("rex-rollout", &["rex-model", "rex-grpo", "rex-trainer", "burn", "burn-core", "tokio"]);
    check("rex-sampler", &["rex-trainer", "tokio", "parquet"]);
    check("rex-learner", &["rex-trainer", "tokio", "parquet", "ureq"]);
    check("rex-trainer", &["rex", "clap", "tokio"]);
}

#[test]
fn back_ends_are_named_only_by_the_programs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    rust_files(&root.join("crates"), &mut sources);
    sources.retain(|path| path.components().any(|part| part.as_os_str() == "src"));
    assert!(sources.len() > 20, "only {} sources found", sources.len());
    for path in sources {
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap();
        for word in
            ["Device::flex", "Device::wgpu", "Device::cuda", "feature = \"cuda\"", "feature = \"wgpu\""]
        {
            assert!(!code.contains(word), "{} names a back end: {word}", path.display());
        }
    }
}

fn rust_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}
