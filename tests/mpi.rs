//! `mpirun`: two processes do what one does, and a lost one leaves the run's checkpoint whole.
#![cfg(feature = "mpi")]

#[path = "fixtures/numbers.rs"]
mod numbers;
#[path = "fixtures/tiny.rs"]
mod tiny;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// `rex train` with a run directory of this name, in so many processes.
fn rex(folder: &Path, name: &str, processes: usize, words: &[&str]) -> Command {
    let mut command = Command::new("mpirun");
    // Open MPI asks before it starts more processes than cores, or any as root, as in a container.
    command.args(["-n", &processes.to_string(), "--oversubscribe", "--bind-to", "none"]);
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.arg(env!("CARGO_BIN_EXE_rex")).args(["train", "-c"]).arg(folder.join("config.toml"));
    command.arg(format!("trainer.run_dir={}", folder.join(name).display()));
    command.args(["trainer.total_steps=4", "rollout.max_rows=4", "trainer.micro_batch_tokens=256"]);
    command.args(words).stdout(Stdio::null());
    command
}

fn run(folder: &Path, name: &str, processes: usize, words: &[&str]) {
    let status = rex(folder, name, processes, words).status().expect("mpirun (Debian: openmpi-bin)");
    assert!(status.success(), "{name}: {status}");
}

fn check_equal(folder: &Path, a: &str, b: &str) {
    let of = |name: &str| numbers::metrics(&folder.join(name));
    let (worst, of) = numbers::worst_difference(&of(a), &of(b));
    println!("{a} and {b}: worst difference {worst:.1e} ({of})");
    assert!(worst <= 1e-5, "{a} and {b}: {of}");
}

#[test]
fn two_processes_train_as_one() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    run(folder.path(), "one", 1, &[]);
    run(folder.path(), "two", 2, &[]);
    check_equal(folder.path(), "two", "one");
}

/// A process that is killed ends the others; what they had saved is whole, and is gone on with.
#[test]
fn a_lost_process_ends_the_run_with_its_checkpoint_whole() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    run(folder.path(), "unbroken", 2, &[]);
    for rank in [0, 1] {
        let name = format!("lost {rank}");
        let mut mpirun = rex(folder.path(), &name, 2, &[]).stderr(Stdio::null()).spawn().unwrap();
        wait_for(&folder.path().join(&name).join("checkpoints/step-2"));
        kill(&mpirun, rank);
        assert!(!mpirun.wait().unwrap().success(), "mpirun must tell");
        run(folder.path(), &name, 2, &["--resume"]);
        check_equal(folder.path(), &name, "unbroken");
    }
}

/// An error of one process is said once for all, and none hangs.
#[test]
fn an_error_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    run(folder.path(), "run", 1, &["trainer.total_steps=1"]);
    let output = rex(folder.path(), "run", 2, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("rex: process 0: ") && said.contains("already holds a run"), "{said}");
}

fn wait_for(path: &PathBuf) {
    let started = Instant::now();
    while !path.exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "{} did not appear", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Kills the process of this rank, as a machine that is lost would: mpirun starts them in order.
fn kill(mpirun: &Child, rank: usize) {
    let children =
        Command::new("pgrep").args(["-P", &mpirun.id().to_string(), "-x", "rex"]).output().unwrap();
    let pids = String::from_utf8(children.stdout).unwrap();
    let mut pids: Vec<u32> = pids.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    pids.sort();
    assert!(Command::new("kill").args(["-9", &pids[rank].to_string()]).status().unwrap().success());
}
