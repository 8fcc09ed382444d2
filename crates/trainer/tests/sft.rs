//! Supervised training: what is learnt of a transcript, that the loss falls, and that a resumed run equals an unbroken one.

#[path = "../../../tests/fixtures/numbers.rs"]
mod numbers;

use burn::tensor::Device;
use numbers::metrics;
use rex_trainer::TrainError;
use rex_trainer::config::Config;
use rex_trainer::hopworld::{Split, files, model};
use rex_trainer::sft::transcripts::read_examples;
use rex_trainer::sft::{Sft, SftStep};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

fn tokenizer() -> rex_model::Tokenizer {
    model::untrained(0, &Device::flex()).tokenizer
}

#[test]
fn only_what_the_model_wrote_is_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("transcripts.jsonl");
    let segment = |author: &str, text: &str| json!({"author": author, "text": text});
    let segments = [
        segment("prompt", "Question: Who is the boss of Rilo Sunta?"),
        segment("model", "<search> Rilo Sunta </search>"),
        segment("information", "\n\n<information>Doc 1</information>\n\n"),
        segment("probe", "<think> Wait,"),
        segment("model", "<answer> Tola Menta </answer>"),
        segment("notice", "My action is invalid."),
    ];
    // The name that a run's own rollouts give the field is read, too.
    let lines = [json!({"segments": segments, "id": 3}), json!({"text": segments})];
    fs::write(&file, format!("{}\n\n{}\n", lines[0], lines[1])).unwrap();
    let tokenizer = tokenizer();
    let check = |learn_probes, expected: &str| {
        let examples = read_examples(&file, &tokenizer, learn_probes, 64).unwrap();
        assert_eq!(examples.len(), 2);
        for example in examples {
            let learnt: Vec<u32> = example
                .ids()
                .iter()
                .zip(example.learnt())
                .filter(|(_, learnt)| *learnt)
                .map(|(&id, _)| id)
                .collect();
            assert_eq!(tokenizer.decode(&learnt), expected);
            assert_eq!(example.targets(), learnt.len());
        }
    };
    check(false, "<search> Rilo Sunta </search> <answer> Tola Menta </answer>");
    check(true, "<search> Rilo Sunta </search> <think> Wait, <answer> Tola Menta </answer>");
}

#[test]
fn faults_name_the_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("transcripts.jsonl");
    let tokenizer = tokenizer();
    let good =
        r#"{"segments": [{"author": "prompt", "text": "Who"}, {"author": "model", "text": "is the boss"}]}"#;
    let check = |line: &str, words: &str| {
        fs::write(&file, format!("{good}\n{line}\n")).unwrap();
        let message = read_examples(&file, &tokenizer, false, 4).unwrap_err().to_string();
        assert!(message.contains("line 2") && message.contains(words), "{message}");
    };
    check("{", "not a JSON object");
    check("{}", "the field `segments` is missing");
    check(r#"{"segments": [{"author": "nobody", "text": ""}]}"#, "nobody");
    check(r#"{"segments": [{"author": "prompt", "text": "Who"}]}"#, "nothing to learn");
    check(
        r#"{"segments": [{"author": "model", "text": "Who is the boss of"}]}"#,
        "5 tokens, more than rollout.max_prompt_length = 4",
    );
}

/// A run of one drill step and three of demonstrations.
fn config(folder: &Path, name: &str) -> Config {
    files::write(0, Split::Validation, 20, 3, &folder.join("world")).unwrap();
    let text = |path: &Path| path.display().to_string();
    let words = [
        "sft.source=hopworld".to_string(),
        "sft.hopworld.people=20".into(),
        "sft.hopworld.drill_batch_size=2".into(),
        "sft.hopworld.drill_steps=1".into(),
        "sft.hopworld.drill_accuracy=0".into(),
        "data.train_batch_size=4".into(),
        "trainer.total_steps=3".into(),
        "optimizer.lr=1e-3".into(),
        format!("retriever.corpus=[{:?}]", text(&folder.join("world/corpus.jsonl"))),
        format!("trainer.run_dir={:?}", text(&folder.join(name))),
    ];
    Config::load(None, &words).unwrap()
}

#[test]
fn a_resumed_run_equals_an_unbroken_one() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    let at = |name: &str| config(folder.path(), name);
    assert!(Sft::start(at("unbroken"), &device).unwrap().run(&mut |_| true).unwrap());
    let unbroken = metrics(&folder.path().join("unbroken"));
    assert_eq!(unbroken.len(), 4);
    let loss = |line: &Map<String, Value>| line["sft/loss"].as_f64().unwrap();
    assert!(loss(&unbroken[3]) < loss(&unbroken[1]));

    // Stopped after the drills, and again in the middle of the demonstrations.
    let stop_at = |step| move |done: SftStep<'_>| done.metrics.step() < step;
    assert!(!Sft::start(at("broken"), &device).unwrap().run(&mut stop_at(1)).unwrap());
    assert!(!Sft::resume(at("broken"), &device).unwrap().run(&mut stop_at(3)).unwrap());
    assert!(Sft::resume(at("broken"), &device).unwrap().run(&mut |_| true).unwrap());
    assert_eq!(unbroken, metrics(&folder.path().join("broken")));
}

#[test]
fn a_run_without_a_checkpoint_goes_on_from_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let device = Device::flex();
    // Killed before its first checkpoint.
    drop(Sft::start(config(folder.path(), "killed"), &device).unwrap());
    let mut resumed = Sft::resume(config(folder.path(), "killed"), &device).unwrap();
    assert!(resumed.run(&mut |_| true).unwrap());
    assert_eq!(metrics(&folder.path().join("killed")).len(), 4);
}

#[test]
fn drills_that_are_not_learnt_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path(), "run");
    config.sft.hopworld.drill_accuracy = 1.0;
    let error = Sft::start(config, &Device::flex()).unwrap().run(&mut |_| true).unwrap_err();
    assert!(matches!(error, TrainError::NotLearnt { stage: "drills", steps: 1, .. }), "{error}");
}
