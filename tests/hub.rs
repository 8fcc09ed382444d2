//! A model by its id of the Hub, as the environment says. What the Hub does is tested in rex-trainer.

#[path = "fixtures/tiny.rs"]
mod tiny;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// `rex ask` without a network.
fn ask(config: &Path, model: &str, variables: &[(&str, &Path)]) -> Output {
    let mut rex = Command::new(env!("CARGO_BIN_EXE_rex"));
    rex.args(["ask", "who", "--json", "-c"]).arg(config).arg(format!("model.path={model}"));
    for name in ["HF_HOME", "HF_HUB_CACHE", "HF_TOKEN"] {
        rex.env_remove(name);
    }
    rex.env("HF_HUB_OFFLINE", "1").env("HF_ENDPOINT", "http://127.0.0.1:9").envs(variables.iter().copied());
    rex.output().unwrap()
}

#[test]
fn a_cached_model_needs_no_network() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let home = folder.path().join("home");
    let model = home.join("hub/models--org--tiny");
    fs::create_dir_all(model.join("refs")).unwrap();
    fs::create_dir_all(model.join("snapshots")).unwrap();
    fs::write(model.join("refs/main"), COMMIT).unwrap();
    fs::rename(folder.path().join("model"), model.join("snapshots").join(COMMIT)).unwrap();

    let by_home = ask(&config, "org/tiny", &[("HF_HOME", &home)]);
    assert!(by_home.status.success(), "{}", String::from_utf8_lossy(&by_home.stderr));
    let by_cache = ask(&config, "org/tiny", &[("HF_HUB_CACHE", &home.join("hub"))]);
    assert_eq!(by_home.stdout, by_cache.stdout);

    let missing = ask(&config, "org/other", &[("HF_HOME", &home)]);
    let message = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(1), "{message}");
    assert!(message.contains("`org/other`") && message.contains("HF_HUB_OFFLINE"), "{message}");
}

#[test]
fn a_path_that_exists_is_never_looked_up() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let mut rex = Command::new(env!("CARGO_BIN_EXE_rex"));
    fs::create_dir(folder.path().join("org")).unwrap();
    fs::rename(folder.path().join("model"), folder.path().join("org/tiny")).unwrap();
    rex.args(["ask", "who", "--json", "-c"])
        .arg(&config)
        .arg("model.path=org/tiny")
        .current_dir(folder.path());
    let output = rex.env("HF_ENDPOINT", "http://127.0.0.1:9").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
