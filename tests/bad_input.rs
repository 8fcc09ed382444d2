//! Bad input is one clear message that names the place, before any training: exit code 1, or 2 for usage; no panic.

#[path = "fixtures/tiny.rs"]
mod tiny;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn train(config: &Path, words: &[String]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rex")).arg("train").arg("-c").arg(config).args(words).output().unwrap()
}

/// Spoils a good run and expects `code` and every one of `expected` in the message.
fn check(name: &str, spoil: impl FnOnce(&Path) -> Vec<String>, words: &[&str], code: i32, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let mut arguments = spoil(folder.path());
    arguments.extend(words.iter().map(|word| word.to_string()));
    let output = train(&config, &arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{name}: {message}");
    assert!(!message.contains("panicked"), "{name}: {message}");
    for part in expected {
        assert!(message.contains(part), "{name}: `{part}` is missing in: {message}");
    }
    // A TOML error shows the line it is about.
    assert!(message.lines().count() <= 6, "{name}: more than a message: {message}");
    assert!(!folder.path().join("run/metrics.jsonl").exists(), "{name}: a run was started");
}

fn nothing(_: &Path) -> Vec<String> {
    Vec::new()
}

fn append(folder: &Path, file: &str, text: &str) -> Vec<String> {
    let path = folder.join(file);
    let old = fs::read_to_string(&path).unwrap();
    fs::write(&path, old + text).unwrap();
    Vec::new()
}

#[test]
fn keys_and_values() {
    check("misspelt key", nothing, &["rollout.grup_size=5"], 2, &["rollout.grup_size", "rollout.group_size"]);
    check("wrong group", nothing, &["data.group_size=5"], 2, &["data.group_size", "rollout.group_size"]);
    check("no equals sign", nothing, &["rollout.group_size"], 2, &["rollout.group_size", "key=value"]);
    check("wrong type", nothing, &["rollout.group_size=many"], 2, &["rollout.group_size", "many"]);
    check("out of range", nothing, &["probe.probability=1.5"], 2, &["probe.probability", "1.5"]);
    check("unknown algorithm", nothing, &["algorithm.name=ppo"], 2, &["algorithm.name", "ppo", "grpo"]);
    let misspelt = |folder: &Path| append(folder, "config.toml", "\n[loging]\nrollout_freq = 1\n");
    check("key in the file", misspelt, &[], 2, &["config.toml:", "loging", "did you mean `logging`"]);
    let mistyped = |folder: &Path| append(folder, "config.toml", "\n[logging]\nrollout_freq = \"x\"\n");
    check("type in the file", mistyped, &[], 2, &["config.toml:", "logging.rollout_freq"]);
    let broken = |folder: &Path| append(folder, "config.toml", "\n[data\n");
    check("not TOML", broken, &[], 2, &["config.toml", "not valid TOML"]);
    check("no model", nothing, &["model.path="], 2, &["model.path"]);
}

#[test]
fn models() {
    check("missing folder", nothing, &["model.path=no/such/model"], 1, &["no/such/model"]);
    let truncated = |folder: &Path| {
        let path = folder.join("model/model.safetensors");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        Vec::new()
    };
    check("truncated weights", truncated, &[], 1, &["model.safetensors"]);
    let headless = |folder: &Path| {
        fs::remove_file(folder.join("model/config.json")).unwrap();
        Vec::new()
    };
    check("no config.json", headless, &[], 1, &["config.json"]);
    check("f16 in training", nothing, &["model.precision=f16"], 1, &["model.precision", "bf16"]);
    check("unknown precision", nothing, &["model.precision=fp8"], 2, &["model.precision", "fp8", "bf16"]);
}

#[test]
fn data() {
    let line = |folder: &Path| append(folder, "corpus.jsonl", "{\"id\": \"x\", \"text\": \"no contents\"}\n");
    check("corpus line", line, &[], 1, &["corpus.jsonl", "13", "contents"]);
    let line = |folder: &Path| append(folder, "questions.jsonl", "{\"question\": \"who\"}\n");
    check("question line", line, &[], 1, &["questions.jsonl", "13", "golden_answers"]);
    let line = |folder: &Path| append(folder, "questions.jsonl", "{\"question\": \n");
    check("broken line", line, &[], 1, &["questions.jsonl", "13"]);
    let empty = |folder: &Path| {
        fs::write(folder.join("questions.jsonl"), "").unwrap();
        Vec::new()
    };
    check("empty file", empty, &[], 1, &["questions.jsonl"]);
    let parquet = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/data/no_reward_model.parquet");
    let word = format!("data.train_files=[\"{}\"]", parquet.display());
    check("parquet", nothing, &[&word], 1, &["no_reward_model.parquet", "reward_model"]);
    check("no corpus", nothing, &["retriever.corpus=[]"], 1, &["retriever.corpus"]);
    check("no file", nothing, &["data.train_files=[\"nowhere.jsonl\"]"], 1, &["nowhere.jsonl"]);
    check("long prompt", nothing, &["rollout.max_start_length=3"], 1, &["max_start_length", "question"]);
    let blank = |folder: &Path| {
        append(folder, "questions.jsonl", "{\"question\": \" \", \"golden_answers\": [\"x\"]}\n")
    };
    check("empty question", blank, &[], 1, &["questions.jsonl", "line 13", "`question` is empty"]);
    let empty = |folder: &Path| {
        fs::write(folder.join("pool.txt"), "\n\n").unwrap();
        Vec::new()
    };
    check("empty pool", empty, &[], 1, &["pool"]);
}

#[test]
fn runs() {
    let taken = |folder: &Path| {
        fs::create_dir(folder.join("run")).unwrap();
        fs::write(folder.join("run/config.toml"), "").unwrap();
        Vec::new()
    };
    check("a run is there", taken, &[], 1, &["already holds a run", "--resume"]);
    let folder = tempfile::tempdir().unwrap();
    let lock = fs::File::create(folder.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    let word = format!("trainer.run_dir={}", folder.path().display());
    check("somebody trains in it", nothing, &[&word], 1, &["another process is training"]);
    check("no run is there", nothing, &["--resume"], 1, &["no run"]);
    check("no such device", nothing, &["--device=tpu"], 1, &["tpu", "cpu"]);
    check("no number", nothing, &["--device=cuda:first"], 1, &["cuda:first", "cuda:1"]);
    check("numbered processor", nothing, &["--device=cpu:1"], 1, &["cpu:1"]);
    check("no device", nothing, &["--device=cuda"], 1, &["cuda"]);
}
