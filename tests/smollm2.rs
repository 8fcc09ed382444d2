//! The real model on real questions: `scripts/smollm2`, then
//! `cargo test --workspace --test smollm2 -- --ignored --nocapture --test-threads=1`.

#[path = "fixtures/numbers.rs"]
mod numbers;

use numbers::metrics;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const CONFIG: &str = "configs/smollm2-mini.toml";

fn rex(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rex"));
    command.args(words).current_dir(env!("CARGO_MANIFEST_DIR"));
    command
}

fn train(run: &Path, words: &[&str]) -> Command {
    let mut command = rex(&["train", "-c", CONFIG, "trainer.total_steps=3"]);
    command.arg(format!("trainer.run_dir={}", run.display())).args(words).stdout(Stdio::null());
    command
}

/// Waits for a child and returns the most memory it held, in bytes, where the system says.
fn peak_memory(child: &mut Child) -> u64 {
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = peak.max(kib.unwrap_or(0) * 1024);
        std::thread::sleep(Duration::from_millis(200));
    }
    peak
}

#[test]
#[ignore = "takes minutes and needs scripts/smollm2"]
fn three_rex_steps_and_the_same_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let (unbroken, killed) = (folder.path().join("unbroken"), folder.path().join("killed"));

    let started = Instant::now();
    let mut child = train(&unbroken, &[]).spawn().unwrap();
    let peak = peak_memory(&mut child);
    assert!(child.wait().unwrap().success());
    let took = started.elapsed();
    println!("three steps: {:.0} s, {:.2} GB", took.as_secs_f64(), peak as f64 / 1e9);
    assert!(took < Duration::from_secs(15 * 60), "{took:?}");
    assert!(peak < 8_000_000_000, "{peak} bytes");

    let steps = metrics(&unbroken);
    assert_eq!(steps.len(), 3);
    let number = |line: &Map<String, Value>, name: &str| {
        line[name].as_f64().unwrap_or_else(|| panic!("{name} is {}", line[name]))
    };
    for line in &steps {
        line.keys().for_each(|name| assert!(number(line, name).is_finite(), "{name}"));
        assert!(number(line, "rollout/logprob_diff_max") < 1e-3);
        println!("rollout/logprob_diff_max {:e}", number(line, "rollout/logprob_diff_max"));
    }
    let probes: f64 = steps.iter().map(|line| number(line, "rex/probes_kept")).sum();
    assert!(probes >= 1.0, "no probe in three steps");
    let rollouts: String = (1..=3)
        .map(|step| std::fs::read_to_string(unbroken.join(format!("rollouts/{step}.jsonl"))).unwrap())
        .collect();
    assert!(rollouts.contains("<information>Doc 1(Title: "), "no passage was shown");

    let mut child = train(&killed, &[]).spawn().unwrap();
    while !killed.join("checkpoints/step-2").exists() {
        assert!(child.try_wait().unwrap().is_none(), "the run ended before its second checkpoint");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(train(&killed, &["--resume"]).status().unwrap().success());
    assert_eq!(steps, metrics(&killed));
}

#[test]
#[ignore = "takes minutes and needs scripts/smollm2"]
fn eval_and_ask() {
    let output = rex(&["eval", "-c", CONFIG, "--limit", "3", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let scores: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(scores["overall"]["questions"], 3);

    let question = "Who assassinated the 20th President of the United States?";
    let words = ["ask", question, "-c", CONFIG, "--gold", "Charles Guiteau", "--mixed", "--json"];
    let output = rex(&words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let first: Value = serde_json::from_slice(output.stdout.split(|&b| b == b'\n').next().unwrap()).unwrap();
    assert_eq!(first["origin"], "original");
}

/// Supervised, so that every row has the length that is wanted: two steps, for the optimizer has no moments in the first.
#[test]
#[ignore = "takes many minutes and needs scripts/smollm2"]
fn a_step_of_eight_rows_of_1024_tokens_takes_the_memory_that_was_announced() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("rows.jsonl");
    // None begins as another, of which less would be computed.
    let rows = ["a", "the", "of", "to", "in", "on", "at", "by"].map(|word| {
        let segments = serde_json::json!([
            {"author": "prompt", "text": word}, {"author": "model", "text": " the".repeat(1023)},
        ]);
        format!("{}\n", serde_json::json!({ "segments": segments }))
    });
    std::fs::write(&data, rows.concat()).unwrap();
    let check = |name: &str, words: &[&str], limit: u64| {
        let mut command = rex(&["sft", "-c", CONFIG, "--json", "trainer.total_steps=2", "data.val_files=[]"]);
        command.args([
            "data.train_batch_size=8",
            "rollout.max_prompt_length=1024",
            "trainer.micro_batch_tokens=1024",
        ]);
        command.arg(format!("data.train_files=[\"{}\"]", data.display()));
        command.arg(format!("trainer.run_dir={}", folder.path().join(name).display()));
        let mut child = command.args(words).stdout(Stdio::piped()).spawn().unwrap();
        let peak = peak_memory(&mut child);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        let first = output.stdout.split(|&byte| byte == b'\n').next().unwrap();
        let announced: Value = serde_json::from_slice(first).unwrap();
        let memory = &announced["memory_estimate"];
        let ratio = memory["bytes"].as_f64().unwrap() / peak as f64;
        println!("{name}: {:.2} GB, announced {memory} ({ratio:.2})", peak as f64 / 1e9);
        assert!(peak < limit, "{name}: {peak} bytes");
        assert!((0.8..=1.2).contains(&ratio), "{name}: {ratio:.2} of {peak} bytes was announced");
    };
    let (recomputed, adapters) = ("trainer.gradient_checkpointing=true", "model.lora_rank=8");
    check("adapters-recomputed", &[adapters, recomputed], 3_000_000_000);
    check("full-recomputed", &[recomputed], 7_000_000_000);
    check("full", &[], 7_000_000_000);
}
