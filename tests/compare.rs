//! `rex compare`: ordinary runs, kept and gone on with, and one result of them.

#[path = "fixtures/numbers.rs"]
mod numbers;
#[path = "fixtures/tiny.rs"]
mod tiny;

use numbers::metrics;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

struct Study {
    folder: tempfile::TempDir,
    config: PathBuf,
}

impl Study {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = tiny::write(folder.path(), 1, 32);
        Self { folder, config }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rex"));
        command.arg("compare").arg("-c").arg(&self.config).arg("--out").arg(self.out());
        command.args(["--jobs", "2", "trainer.test_freq=1"]).args(words);
        command
    }

    fn compare(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn result(&self) -> Value {
        serde_json::from_slice(&fs::read(self.out().join("compare.json")).unwrap()).unwrap()
    }
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn assert_good(output: &Output) {
    assert!(output.status.success(), "{}", error(output));
}

#[test]
fn ordinary_runs_and_their_comparison() {
    let study = Study::new();
    let words = [
        "--arms",
        "rex,grpo",
        "--arm",
        "warm:rollout.temperature=1.5",
        "--seeds",
        "0..2",
        "trainer.total_steps=2",
    ];
    let output = study.compare(&words);
    assert_good(&output);
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["6 of 6 runs to train", "warm, seed 1: EM", "Difference to grpo", "compare.html"] {
        assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
    }
    let result = study.result();
    assert_eq!(result["baseline"], "grpo");
    for (arm, name) in ["rex", "grpo", "warm"].iter().enumerate() {
        let arm = &result["arms"][arm];
        assert_eq!(arm["name"], *name);
        assert_eq!(arm["runs"].as_array().unwrap().len(), 2);
        assert_eq!(arm["difference"].is_null(), *name == "grpo");
        assert!(arm["em"]["all"]["interval"].is_array());
        assert_eq!(arm["runs"][1]["curves"]["all"].as_array().unwrap().len(), 3, "evaluated at 0, 1 and 2");
    }

    // A run of the study is what `rex train` makes.
    let alone = study.folder.path().join("alone");
    let run_dir = format!("trainer.run_dir={}", alone.display());
    let words_alone = [
        "trainer.test_freq=1",
        "trainer.total_steps=2",
        "algorithm.name=grpo",
        "probe.probability=0",
        "trainer.seed=1",
        &run_dir,
    ];
    let mut train = Command::new(env!("CARGO_BIN_EXE_rex"));
    train.args(["train", "--quiet", "-c"]).arg(&study.config).args(words_alone).env("RAYON_NUM_THREADS", "1");
    assert!(train.status().unwrap().success());
    let run = study.out().join("grpo/seed-1");
    assert_eq!(metrics(&run), metrics(&alone));

    // Again: nothing is trained, the same comes out. A changed method is refused before anything is trained.
    let trained = fs::metadata(run.join("metrics.jsonl")).unwrap().modified().unwrap();
    fs::remove_file(study.out().join("compare.md")).unwrap();
    assert_good(&study.compare(&words));
    assert_eq!(fs::metadata(run.join("metrics.jsonl")).unwrap().modified().unwrap(), trained);
    assert!(study.out().join("compare.md").exists());
    assert_eq!(study.result(), result);
    let changed = study.compare(&["--seeds", "0..3", "algorithm.kl_loss_coef=0.5"]);
    assert_eq!(changed.status.code(), Some(1));
    let message = error(&changed);
    assert!(message.contains("arm rex, seed 0") && message.contains("algorithm.kl_loss_coef"), "{message}");
    assert!(!study.out().join("rex/seed-2").exists());

    // More steps: the runs go on.
    let longer: Vec<&str> = words
        .iter()
        .map(|word| word.strip_suffix("steps=2").map_or(*word, |_| "trainer.total_steps=3"))
        .collect();
    assert_good(&study.compare(&longer));
    assert_eq!(study.result()["arms"][2]["runs"][0]["steps"], 3);
}

#[test]
fn a_failed_run_does_not_lose_the_others() {
    let study = Study::new();
    let words = [
        "--arms",
        "rex",
        "--arm",
        "broken:model.path=no/such/model",
        "--seeds",
        "0..2",
        "trainer.total_steps=1",
    ];
    let output = study.compare(&words);
    assert_eq!(output.status.code(), Some(1));
    let message = error(&output);
    assert!(message.contains("2 of 4 runs failed"), "{message}");
    assert_eq!(message.matches("no/such/model:").count(), 1, "each message once: {message}");
    assert!(!message.contains("panicked"), "{message}");
    assert_eq!(study.result()["arms"][0]["runs"].as_array().unwrap().len(), 2);
}

#[cfg(unix)]
#[test]
fn stopped_and_gone_on_with() {
    use std::time::{Duration, Instant};

    let study = Study::new();
    let (long, short) = ("trainer.total_steps=500", "trainer.total_steps=30");
    let words = |steps| {
        ["--arms", "rex", "--seeds", "0..2", "--quiet", "trainer.save_freq=5", "trainer.test_freq=5", steps]
    };
    let unbroken = Study { folder: tempfile::tempdir().unwrap(), config: study.config.clone() };
    assert_good(&unbroken.compare(&words(short)));

    let run = study.out().join("rex/seed-0");
    let checkpoint = |step: u64| run.join(format!("checkpoints/step-{step}"));
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let started = Instant::now();
        while !holds() {
            assert!(started.elapsed() < Duration::from_secs(120), "{what}");
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    let signal = |signal: &str, step: u64| {
        let mut child = study.command(&words(long)).spawn().unwrap();
        until("no checkpoint appeared", &|| checkpoint(step).exists());
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
        child.wait().unwrap()
    };
    let last = || metrics(&run).last().unwrap()["step"].as_u64().unwrap();
    // Whoever trains holds the lock.
    let idle = || {
        ["rex/seed-0/.lock", "rex/seed-1/.lock"]
            .iter()
            .all(|lock| fs::File::open(study.out().join(lock)).is_ok_and(|file| file.try_lock().is_ok()))
    };
    // Asked to stop: whoever was at work has saved and gone.
    assert!(signal("-INT", 5).success());
    assert!(idle() && checkpoint(last()).exists() && last() < 30, "stopped at {}", last());
    // Killed: nobody is left to ask, and the runs stop by themselves.
    signal("-KILL", last() / 5 * 5 + 5);
    until("the runs go on", &idle);
    assert!(checkpoint(last()).exists() && last() < 30, "stopped at {}", last());

    assert_good(&study.compare(&words(short)));
    for seed in ["rex/seed-0", "rex/seed-1"] {
        assert_eq!(metrics(&study.out().join(seed)), metrics(&unbroken.out().join(seed)), "{seed}");
    }
}

#[test]
fn usage() {
    let study = Study::new();
    let check = |words: &[&str], expected: &[&str]| {
        let output = study.compare(words);
        let message = error(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {message}");
        expected.iter().for_each(|part| assert!(message.contains(part), "`{part}` is missing in: {message}"));
    };
    check(&["--arms", "ppo"], &["no arm `ppo`", "rex-uncorrected"]);
    check(&["--arms", "rex,rex"], &["two arms are called `rex`"]);
    check(&["--arm", "x"], &["NAME:key=value"]);
    check(&["--arm", "x:probe.probabilty=1"], &["arm x, seed 0", "did you mean `probe.probability`"]);
    check(&["--baseline", "dapo"], &["`dapo` is not among the arms"]);
    check(&["--seeds", "3..3"], &["3..3"]);
    check(&["trainer.test_freq=0"], &["trainer.test_freq"]);
    check(&["data.val_files=[]"], &["data.val_files"]);
    assert!(!study.out().exists(), "nothing was trained");
}
