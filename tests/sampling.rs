//! The flags of `ask` and `eval` that say how the next token is chosen.

#[path = "fixtures/tiny.rs"]
mod tiny;

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn rex(command: &[&str], config: &Path, flags: &str) -> Output {
    let mut rex = Command::new(env!("CARGO_BIN_EXE_rex"));
    rex.args(command).arg("-c").arg(config).args(flags.split_whitespace()).output().unwrap()
}

fn ids(config: &Path, flags: &str) -> Value {
    let output = rex(&["ask", "king of ur", "--json"], config, flags);
    assert!(output.status.success(), "{flags}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()["ids"].clone()
}

#[test]
fn a_draw_is_confined_to_the_likeliest() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let (greedy, drawn) = (ids(&config, ""), ids(&config, "--temperature 1 --seed 3"));
    assert_ne!(greedy, drawn);
    for same in ["--top-k 1", "--top-p 1e-9", "--min-p 1"] {
        assert_eq!(ids(&config, &format!("--temperature 1 --seed 3 {same}")), greedy, "{same}");
    }
    assert_eq!(ids(&config, "--temperature 1 --seed 3 --top-p 1 --top-k 999 --min-p 0"), drawn);
    assert_eq!(ids(&config, "--temperature 0 --top-k 5"), greedy);
    assert_ne!(ids(&config, "--temperature 1 --seed 3 --top-k 4"), greedy);

    let scored = rex(&["eval", "--json"], &config, "--limit 2 --temperature 1 --top-p 0.9 --min-p 0.01");
    let scores: Value = serde_json::from_slice(&scored.stdout).unwrap();
    assert_eq!(scores["overall"]["questions"], 2);
}

#[test]
fn rules_that_make_no_sense_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    for (flags, words) in [
        ("--temperature=-1", ["--temperature", "from 0"]),
        ("--temperature NaN", ["--temperature", "from 0"]),
        ("--temperature 1 --top-k 0", ["--top-k", "from 1"]),
        ("--temperature 1 --top-p 0", ["--top-p", "above 0"]),
        ("--temperature 1 --top-p 1.5", ["--top-p", "up to 1"]),
        ("--temperature 1 --min-p 2", ["--min-p", "from 0 to 1"]),
        ("--top-p 0.9", ["--temperature", "required"]),
        ("--temperature 1 --top-k 5 --gold ur --mixed", ["--mixed", "--top-k"]),
    ] {
        let output = rex(&["ask", "who"], &config, flags);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags}: {message}");
        assert!(words.iter().all(|word| message.contains(word)), "{flags}: {message}");
    }
}
