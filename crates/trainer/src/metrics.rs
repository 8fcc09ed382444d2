//! A step's numbers, by name, and the `metrics.jsonl` they are written to.

use crate::error::TrainError;
use crate::tensorboard::EventFile;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The numbers of one line of `metrics.jsonl`; verl's names where it has one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metrics(BTreeMap<String, Value>);

impl Metrics {
    pub fn new(step: usize) -> Self {
        Self(BTreeMap::from([("step".to_string(), step.into())]))
    }

    /// Records a number. JSON has no NaN or infinity: those are written as strings, so that a line stays valid
    /// and the fault visible.
    pub fn set(&mut self, name: impl Into<String>, value: f64) {
        let number = serde_json::Number::from_f64(value).map(Value::Number);
        self.0.insert(name.into(), number.unwrap_or_else(|| Value::String(value.to_string())));
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        match self.0.get(name)? {
            Value::String(text) => text.parse().ok(),
            value => value.as_f64(),
        }
    }

    pub fn step(&self) -> usize {
        self.0.get("step").and_then(Value::as_u64).unwrap_or_default() as usize
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.keys().filter(|name| *name != "step").filter_map(|name| Some((name.as_str(), self.get(name)?)))
    }
}

/// Appends lines to `metrics.jsonl`, each whole or not at all after a crash, and to an event file beside it.
pub struct MetricsLog {
    path: PathBuf,
    file: File,
    events: EventFile,
}

impl MetricsLog {
    /// Opens the log of a run that goes on after step `done` (`None`: from its start). Later lines, of steps that a crash
    /// undid, are dropped.
    ///
    /// # Errors
    /// The file system's, with the path.
    pub fn open(path: &Path, done: Option<usize>) -> Result<Self, TrainError> {
        let io = |source| TrainError::Io { path: path.to_path_buf(), source };
        let kept: String = match std::fs::read_to_string(path) {
            Ok(text) => {
                text.lines().filter(|line| keeps(line, done)).map(|line| format!("{line}\n")).collect()
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(io(e)),
        };
        crate::run_dir::replace_file(path, kept.as_bytes())?;
        let file = OpenOptions::new().append(true).open(path).map_err(io)?;
        let events = EventFile::create(path.parent().unwrap_or(Path::new("")), done)?;
        Ok(Self { path: path.to_path_buf(), file, events })
    }

    /// # Errors
    /// The file system's, with the path.
    pub fn append(&mut self, metrics: &Metrics) -> Result<(), TrainError> {
        let line = serde_json::to_string(metrics).expect("numbers and strings");
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        let path = || self.path.clone();
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|source| TrainError::Io { path: path(), source })?;
        self.events.append(metrics)
    }
}

/// The lines of a `metrics.jsonl`, in order, and the numbers (from 1) of those that hold no metrics: a crash leaves half a
/// line at the end. A file that is not there has none.
///
/// # Errors
/// The file system's, with the path.
pub fn read(path: &Path) -> Result<(Vec<Metrics>, Vec<usize>), TrainError> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(source) => return Err(TrainError::Io { path: path.to_path_buf(), source }),
    };
    let (mut lines, mut broken) = (Vec::new(), Vec::new());
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        match serde_json::from_str::<Metrics>(line) {
            Ok(metrics) if metrics.0.contains_key("step") => lines.push(metrics),
            _ if line.trim().is_empty() => {}
            _ => broken.push(number + 1),
        }
    }
    Ok((lines, broken))
}

fn keeps(line: &str, done: Option<usize>) -> bool {
    serde_json::from_str::<Metrics>(line).is_ok_and(|metrics| Some(metrics.step()) <= done)
}

/// The mean of some numbers; 0 of none.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0usize);
    for value in values {
        sum += value;
        count += 1;
    }
    if count == 0 { 0.0 } else { sum / count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_undone_steps_are_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        let steps = |done: Option<usize>| {
            let mut log = MetricsLog::open(&path, done).unwrap();
            let next = done.map_or(0, |done| done + 1);
            log.append(&Metrics::new(next)).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            text.lines().map(|line| serde_json::from_str::<Metrics>(line).unwrap().step()).collect::<Vec<_>>()
        };
        assert_eq!(steps(None), [0]);
        assert_eq!(steps(Some(0)), [0, 1]);
        assert_eq!(steps(Some(1)), [0, 1, 2]);
        assert_eq!(steps(Some(0)), [0, 1]);
        assert_eq!(steps(None), [0]);
        // Half a line, as a crash leaves one.
        std::fs::write(&path, "{\"step\":0}\n{\"st").unwrap();
        assert_eq!(steps(Some(0)), [0, 1]);
    }

    #[test]
    fn what_is_no_line_is_numbered() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.jsonl");
        assert_eq!(read(&path).unwrap(), (vec![], vec![]));
        std::fs::write(&path, b"{\"step\":1}\n\n[]\n{\"em\":1}\n{\"step\":2}\n{\"st\xff").unwrap();
        let (lines, broken) = read(&path).unwrap();
        assert_eq!(lines.iter().map(Metrics::step).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(broken, [3, 4, 6]);
    }

    #[test]
    fn numbers_that_json_lacks_stay_visible() {
        let mut metrics = Metrics::new(3);
        metrics.set("loss", f64::NAN);
        metrics.set("norm", f64::INFINITY);
        let line = serde_json::to_string(&metrics).unwrap();
        assert_eq!(line, r#"{"loss":"NaN","norm":"inf","step":3}"#);
        let read: Metrics = serde_json::from_str(&line).unwrap();
        assert!(read.get("loss").unwrap().is_nan());
        assert_eq!(read.get("norm"), Some(f64::INFINITY));
    }
}
