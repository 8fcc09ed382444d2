//! What a run leaves: METHOD §8.7, the same seed gives the same run and a run that was killed and resumed equals an
//! unbroken one; and its checkpoint is a model like any other.

#[path = "fixtures/numbers.rs"]
mod numbers;
#[path = "fixtures/tiny.rs"]
mod tiny;

use numbers::metrics;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn rex(config: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rex"));
    command.arg("train").arg("-c").arg(config).args(words).stdout(Stdio::null());
    command
}

#[test]
fn same_seed_same_run_and_resumed_equals_unbroken() {
    check_resumption(&[]);
}

#[test]
fn adapters_are_resumed_too() {
    check_resumption(&["model.lora_rank=2", "trainer.gradient_checkpointing=true"]);
}

fn check_resumption(overrides: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let run = |name: &str| folder.path().join(name);
    let rex = |name: &str, more: &[&str]| {
        let run_dir = format!("trainer.run_dir={}", run(name).display());
        let same =
            [&run_dir, "trainer.total_steps=4", "trainer.micro_batch_tokens=256", "rollout.max_rows=5"];
        rex(&config, &[overrides, &same, more].concat())
    };

    // On however many cores: parts of the rollouts and passes run side by side.
    for (name, threads) in [("unbroken", "3"), ("again", "1")] {
        assert!(rex(name, &[]).env("RAYON_NUM_THREADS", threads).status().unwrap().success());
    }
    let unbroken = metrics(&run("unbroken"));
    assert!(
        unbroken.iter().any(|line| line.get("rex/probes_kept").and_then(Value::as_f64) > Some(0.0)),
        "a probe takes part"
    );
    assert_eq!(unbroken, metrics(&run("again")));

    // Killed as soon as the second step is on disk, wherever the third then is.
    let mut child = rex("killed", &[]).spawn().unwrap();
    let started = Instant::now();
    while !run("killed").join("checkpoints/step-2").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "no checkpoint appeared");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(rex("killed", &["--resume"]).status().unwrap().success());
    assert_eq!(unbroken, metrics(&run("killed")));
}

#[test]
fn an_export_is_a_model_folder() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    assert!(rex(&config, &["trainer.total_steps=1"]).status().unwrap().success());
    let (run, out) = (folder.path().join("run"), folder.path().join("exported"));
    let export = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rex"));
        command.arg("export").arg(&run).arg("--out").arg(&out).output().unwrap()
    };
    assert!(export().status.success());
    let again = export();
    assert_eq!(again.status.code(), Some(1), "an existing folder is left alone");
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists"));

    let mut eval = Command::new(env!("CARGO_BIN_EXE_rex"));
    let model = format!("model.path={}", out.display());
    let output = eval.args(["eval", "--json", "-c"]).arg(&config).arg(model).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let scores: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(scores["overall"]["questions"], 12);
}
