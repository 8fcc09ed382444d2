//! `rex train` without a configuration, in an empty folder: the default is unpacked as ordinary files, once, and a run ends by
//! telling what came of it.

#[path = "fixtures/tiny.rs"]
mod tiny;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn rex(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rex")).current_dir(folder).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Few and small steps of a random model, where the real one would take minutes.
const SMALL: [&str; 7] = [
    "model.path=tiny/model",
    "data.train_batch_size=2",
    "data.val_limit=6",
    "rollout.group_size=2",
    "rollout.max_response_length=16",
    "trainer.total_steps=2",
    "trainer.test_freq=1",
];

#[test]
fn the_default_is_unpacked_and_trained() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("tiny")).unwrap();
    tiny::write(&at("tiny"), 1, 32);

    let words: Vec<&str> = ["train"].into_iter().chain(SMALL).collect();
    let output = rex(folder.path(), &words);
    let (said, warned) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{warned}");
    assert!(warned.contains("Unpacked the default, Hopworld, into hopworld/"), "{warned}");
    for expected in [
        "EM 1-hop",
        "EM 3-hop",
        "EM all",
        " -> ",
        "Dead ends",
        "Took",
        "runs/hopworld",
        "runs/hopworld/report.html",
    ] {
        assert!(said.contains(expected), "`{expected}` is missing in:\n{said}");
    }
    assert!(
        said.contains("ask 'Who is the ") && said.contains("model.path=runs/hopworld/checkpoints/step-2"),
        "{said}"
    );
    assert!(said.contains("compare --config hopworld/hopworld.toml"), "{said}");

    // Every file is there as it is in the repository, and the configuration names them where they are.
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/hopworld/test/questions.jsonl");
    assert_eq!(fs::read(assets).unwrap(), fs::read(at("hopworld/test/questions.jsonl")).unwrap());
    let config = fs::read_to_string(at("hopworld/hopworld.toml")).unwrap();
    assert!(config.contains("\"hopworld/train/questions.jsonl\"") && !config.contains("assets/"), "{config}");

    // What the user changed stays changed.
    fs::write(at("hopworld/hopworld.toml"), config.replace("topk = 2", "topk = 1")).unwrap();
    let output = rex(folder.path(), &["train", "--print-config"]);
    assert!(text(&output.stdout).contains("topk = 1"), "{}", text(&output.stdout));
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));

    // The run that is there is not overwritten; resumed, it tells of its beginning, too.
    fs::write(at("hopworld/hopworld.toml"), config).unwrap();
    let output = rex(folder.path(), &words);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("runs/hopworld already holds a run"), "{}", text(&output.stderr));
    let resume: Vec<&str> = words.iter().copied().chain(["--resume"]).collect();
    let resumed = text(&rex(folder.path(), &resume).stdout);
    let scores = |said: &str| {
        said.lines().filter(|line| line.starts_with("EM ")).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(scores(&resumed), scores(&said));

    // Other commands take the same files.
    let eval = rex(
        folder.path(),
        &["eval", "--json", "--limit", "3", "model.path=tiny/model", "rollout.max_response_length=16"],
    );
    assert!(eval.status.success(), "{}", text(&eval.stderr));
    assert!(text(&eval.stdout).contains("\"1-hop\""));
}

#[test]
fn a_checkout_uses_its_own_files() {
    let output = rex(Path::new(env!("CARGO_MANIFEST_DIR")), &["train", "--print-config"]);
    assert!(
        text(&output.stdout).contains("assets/hopworld/train/questions.jsonl"),
        "{}",
        text(&output.stderr)
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("hopworld"), "in the way").unwrap();
    let output = rex(folder.path(), &["train"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        message.contains("unpacking the default into hopworld") && message.contains("--config"),
        "{message}"
    );
}
