//! A run directory as a report sees it: what can be read of it, and notes on what cannot.

use crate::config::Config;
use crate::error::TrainError;
use crate::metrics::{self, Metrics};
use crate::rollout_log::Line;
use crate::run_dir::RunDir;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

pub(super) struct Run {
    pub(super) dir: RunDir,
    pub(super) name: String,
    /// `config.toml` as it stands.
    pub(super) config_text: String,
    /// The defaults where `config.toml` cannot be read.
    pub(super) config: Config,
    pub(super) metrics: Vec<Metrics>,
    /// What is missing or broken, and what that means for the report.
    pub(super) notes: Vec<String>,
}

impl Run {
    /// # Errors
    /// [`TrainError::NothingToReport`], or the file system's, with the path.
    pub(super) fn read(root: &Path) -> Result<Self, TrainError> {
        let dir = RunDir::at(root);
        if !dir.config().is_file() && !dir.metrics().is_file() {
            return Err(TrainError::NothingToReport { path: root.to_path_buf() });
        }
        let mut notes = Vec::new();
        let (metrics, broken) = metrics::read(&dir.metrics())?;
        for line in broken {
            notes.push(format!(
                "metrics.jsonl, line {line}: no metrics (a crash leaves half a line); left out"
            ));
        }
        let config = Config::load(Some(&dir.config()), &[]).unwrap_or_else(|error| {
            notes.push(format!("{error}; warnings are judged by the default configuration"));
            Config::default()
        });
        let config_text = std::fs::read(dir.config()).unwrap_or_default();
        Ok(Self {
            name: name(root),
            config_text: String::from_utf8_lossy(&config_text).into_owned(),
            config,
            metrics,
            notes,
            dir,
        })
    }

    /// The transcripts of a file of `rollouts/`; none if it is not there.
    ///
    /// # Errors
    /// The file system's, with the path.
    pub(super) fn rollouts(&mut self, path: &Path) -> Result<Vec<Line>, TrainError> {
        let io = |source| TrainError::Io { path: path.to_path_buf(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(io(e)),
        };
        let mut rollouts = Vec::new();
        for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
            match serde_json::from_slice::<Line>(&line.map_err(io)?) {
                Ok(line) => rollouts.push(line),
                Err(error) => {
                    let name = path.file_name().unwrap_or_default().display();
                    self.notes.push(format!(
                        "rollouts/{name}, line {}: no transcript ({error}); left out",
                        number + 1
                    ));
                }
            }
        }
        Ok(rollouts)
    }

    /// The steps in `rollouts/` whose file has this prefix before the number, in order. Steps without a line of metrics
    /// are left out: a crash undid them.
    pub(super) fn logged_steps(&self, prefix: &str) -> Vec<usize> {
        let entries = std::fs::read_dir(self.dir.rollouts()).into_iter().flatten().flatten();
        let step = |name: PathBuf| name.to_str()?.strip_prefix(prefix)?.strip_suffix(".jsonl")?.parse().ok();
        let done = |step: &usize| self.metrics.iter().any(|metrics| metrics.step() == *step);
        let mut steps: Vec<usize> =
            entries.filter_map(|entry| step(entry.file_name().into())).filter(done).collect();
        steps.sort_unstable();
        steps
    }

    /// The last step that was trained.
    pub(super) fn last_step(&self) -> usize {
        self.metrics.iter().map(Metrics::step).max().unwrap_or_default()
    }
}

/// The folder's own name, also where `root` is `.` or ends in `..`.
fn name(root: &Path) -> String {
    let whole = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    whole.file_name().map_or_else(|| whole.display().to_string(), |name| name.display().to_string())
}
