//! `rex report`: what it shows of a run, of one that is broken or under way, and that nothing in a run can break the page.

#[path = "fixtures/tiny.rs"]
mod tiny;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn rex(arguments: &[&str], run: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rex")).args(arguments).arg(run).output().unwrap()
}

/// A run of `steps` steps in `folder/run`, on questions that try to break out of the page.
fn train(folder: &Path, steps: usize) -> Output {
    let config = tiny::write(folder, 1, 32);
    let questions = folder.join("questions.jsonl");
    let text = fs::read_to_string(&questions).unwrap();
    let hostile = r#"</script><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}"#;
    fs::write(&questions, text.replace("who is king", &format!("{hostile} who is king"))).unwrap();
    let words = [format!("trainer.total_steps={steps}"), "logging.val_rollouts=2".into()];
    let mut command = Command::new(env!("CARGO_BIN_EXE_rex"));
    command.args(["train", "-c"]).arg(&config).args(words).output().unwrap()
}

fn report(run: &Path) -> String {
    let output = rex(&["report"], run);
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    fs::read_to_string(run.join("report.html")).unwrap()
}

/// The data that the page's scripts read.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once(r#"<script type="application/json" id="data">"#).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_run_leaves_its_report() {
    let folder = tempfile::tempdir().unwrap();
    let output = train(folder.path(), 4);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("report.html"));
    let run = folder.path().join("run");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert_eq!(page, report(&run), "the command writes what the run wrote");

    assert!(!page.contains("<script>alert") && !page.contains("<img"), "a question broke out");
    assert!(page.contains("{{ 7*7 }}") || page.contains("7*7"), "text is no template");
    assert!(!page.contains("http://") && !page.contains("https://"), "the page needs no network");
    assert_eq!(page.matches("<script").count(), 2);
    let data = data(&page);
    let steps = data["steps"].as_array().unwrap();
    assert_eq!(steps.iter().map(|step| step["step"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(data["samples"]["steps"], serde_json::json!([0, 4]));
    assert_eq!(data["samples"]["rows"].as_array().unwrap().len(), 2);

    // Every rollout has as many pieces, log-probabilities and ratios as its authors say.
    let mut probes = 0;
    for rollout in steps
        .iter()
        .flat_map(|step| step["groups"].as_array().unwrap())
        .flat_map(|group| group["rollouts"].as_array().unwrap())
    {
        let count = |runs: &Value, number: usize| -> u64 {
            runs.as_array().unwrap().iter().map(|run| run[number].as_u64().unwrap()).sum()
        };
        let len = |name: &str| rollout[name].as_array().unwrap().len() as u64;
        let prefix = rollout["prefix"].as_u64().unwrap();
        assert_eq!(len("pieces") + prefix, count(&rollout["runs"], 1));
        let runs = rollout["runs"].as_array().unwrap().iter();
        let learnt: u64 = runs
            .filter(|run| run[0] == "model" || run[0] == "probe")
            .map(|run| run[1].as_u64().unwrap())
            .sum();
        assert_eq!(count(&rollout["log_ratios"], 0), if rollout["kept"] == true { learnt } else { 0 });
        assert!(len("log_probs") <= learnt);
        probes += u64::from(rollout["origin"] == "probe" && prefix > 0);
    }
    assert!(probes > 0, "no probe stands beside its parent");
}

#[test]
fn broken_and_unfinished_runs_have_reports() {
    let folder = tempfile::tempdir().unwrap();
    assert!(train(folder.path(), 2).status.success());
    let run = folder.path().join("run");
    let append = |file: &str, text: &str| {
        let path = run.join(file);
        let old = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, old + text).unwrap();
    };
    append("metrics.jsonl", "{\"step\": 3, \"rex/e");
    append("rollouts/2.jsonl", "{\"step\": 2, \"id\"");
    append("rollouts/9.jsonl", "");
    append("config.toml", "\n[loging]\n");
    let page = report(&run);
    for part in ["metrics.jsonl, line 5", "2.jsonl, line ", "loging"] {
        assert!(page.contains(part), "`{part}` is not said");
    }
    fs::remove_dir_all(run.join("rollouts")).unwrap();
    fs::remove_file(run.join("config.toml")).unwrap();
    assert!(report(&run).contains("config.toml is missing"));

    let new = folder.path().join("new");
    fs::create_dir(&new).unwrap();
    fs::write(new.join("config.toml"), "").unwrap();
    assert!(report(&new).contains("No step is done yet"));
}

#[test]
fn a_folder_that_is_no_run_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("nowhere")] {
        let output = rex(&["report"], &path);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("is no run") && message.contains("config.toml"), "{message}");
        assert!(!path.join("report.html").exists());
    }
}

/// The event files are read by TensorBoard as the run that metrics.jsonl holds.
#[test]
fn a_run_has_event_files() {
    let folder = tempfile::tempdir().unwrap();
    assert!(train(folder.path(), 1).status.success());
    let names = fs::read_dir(folder.path().join("run")).unwrap().map(|entry| entry.unwrap().file_name());
    let events = names.filter(|name| name.to_string_lossy().starts_with("events.out.tfevents.")).count();
    assert_eq!(events, 1);
}
