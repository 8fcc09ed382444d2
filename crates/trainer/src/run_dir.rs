//! The run directory, and how its files appear: whole or not at all.

use crate::config::Config;
use crate::error::TrainError;
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `runs/NAME/{config.toml, metrics.jsonl, events.out.tfevents.*, rollouts/STEP.jsonl, rollouts/val-STEP.jsonl,
/// checkpoints/step-N/, report.html}`.
#[derive(Debug, Clone)]
pub struct RunDir {
    root: PathBuf,
    /// Held by whoever trains, until the process ends.
    _lock: Option<Arc<File>>,
}

impl RunDir {
    /// A run's folder, whatever is in it.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf(), _lock: None }
    }

    /// An existing run, to read from.
    ///
    /// # Errors
    /// [`TrainError::NoRun`].
    pub fn open(root: &Path) -> Result<Self, TrainError> {
        let run = Self::at(root);
        if run.config().exists() { Ok(run) } else { Err(TrainError::NoRun { path: run.root }) }
    }

    /// Refuses a folder that already holds a run, so that nothing is lost by a second `train`.
    ///
    /// # Errors
    /// [`TrainError::RunExists`].
    pub fn refuse_existing(config: &Config) -> Result<(), TrainError> {
        match Self::open(&config.trainer.run_dir) {
            Ok(run) => Err(TrainError::RunExists { path: run.root }),
            Err(_) => Ok(()),
        }
    }

    /// Makes the folders and records the configuration, for this process alone.
    ///
    /// # Errors
    /// [`TrainError::Busy`], or the file system's, with the path.
    pub fn create(config: &Config) -> Result<Self, TrainError> {
        let root = config.trainer.run_dir.clone();
        create_dir(&root)?;
        let run = Self { _lock: Some(lock(&root)?), root };
        create_dir(&run.rollouts())?;
        create_dir(&run.checkpoints())?;
        let text = toml::to_string(config).expect("the configuration is plain data");
        replace_file(&run.config(), text.as_bytes())?;
        Ok(run)
    }

    /// An earlier run to go on with, under the configuration that it was started with.
    ///
    /// # Errors
    /// [`TrainError::NoRun`], or [`TrainError::ConfigChanged`] when a key outside `trainer` and `logging` differs.
    pub fn resume(config: &Config) -> Result<Self, TrainError> {
        let run = Self::open(&config.trainer.run_dir)?;
        let saved = Config::load(Some(&run.config()), &[])?;
        match first_difference(&saved, config) {
            Some(key) => Err(TrainError::ConfigChanged { path: run.config(), key }),
            None => Ok(run),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn config(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    pub fn metrics(&self) -> PathBuf {
        self.root.join("metrics.jsonl")
    }

    pub fn rollouts(&self) -> PathBuf {
        self.root.join("rollouts")
    }

    pub fn checkpoints(&self) -> PathBuf {
        self.root.join("checkpoints")
    }

    /// The transcripts of a step.
    pub fn step_rollouts(&self, step: usize) -> PathBuf {
        self.rollouts().join(format!("{step}.jsonl"))
    }

    /// The transcripts of some validation questions, at the evaluation after `step`.
    pub fn val_rollouts(&self, step: usize) -> PathBuf {
        self.rollouts().join(format!("val-{step}.jsonl"))
    }

    pub fn report(&self) -> PathBuf {
        self.root.join("report.html")
    }

    /// Where the batch of a skipped step is kept for inspection.
    pub fn skipped(&self, step: usize) -> PathBuf {
        self.rollouts().join(format!("{step}.skipped.jsonl"))
    }
}

/// The first key of the method, the data or the model in which two configurations differ.
fn first_difference(saved: &Config, given: &Config) -> Option<String> {
    fn walk(a: &Value, b: &Value, path: &str) -> Option<String> {
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                a.iter().find_map(|(key, value)| walk(value, &b[key], &format!("{path}.{key}")))
            }
            _ => (a != b).then(|| path.trim_start_matches('.').to_string()),
        }
    }
    let method = |config: &Config| {
        let config = Config {
            trainer: crate::config::TrainerConfig { seed: config.trainer.seed, ..Default::default() },
            logging: Default::default(),
            ..config.clone()
        };
        serde_json::to_value(config).expect("the configuration is plain data")
    };
    walk(&method(saved), &method(given), "")
}

/// Writes a file aside, flushes it to the disk and renames it into place.
///
/// # Errors
/// The file system's, with the path.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), TrainError> {
    let aside = path.with_added_extension("partial");
    let write = || fs::write(&aside, bytes).and_then(|()| publish(&aside, path));
    write().map_err(|source| TrainError::Io { path: path.to_path_buf(), source })
}

/// Makes a finished file durable and gives it its name.
///
/// # Errors
/// The file system's.
pub fn publish(aside: &Path, target: &Path) -> std::io::Result<()> {
    File::options().write(true).open(aside)?.sync_all()?;
    fs::rename(aside, target)?;
    sync_folder(target)
}

/// Flushes the folder entry of `path`: a rename survives a power cut only after this.
pub fn sync_folder(path: &Path) -> std::io::Result<()> {
    match path.parent() {
        Some(parent) if cfg!(unix) && !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// Two processes in one run would write over each other. A file system without locks is taken as it is.
fn lock(root: &Path) -> Result<Arc<File>, TrainError> {
    let path = root.join(".lock");
    let file = File::create(&path).map_err(|source| TrainError::Io { path, source })?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(TrainError::Busy { path: root.to_path_buf() }),
        Err(TryLockError::Error(_)) | Ok(()) => Ok(Arc::new(file)),
    }
}

fn create_dir(path: &Path) -> Result<(), TrainError> {
    fs::create_dir_all(path).map_err(|source| TrainError::Io { path: path.to_path_buf(), source })
}
