//! `events.out.tfevents.*`: every number of a metrics line as a scalar that TensorBoard reads.
//!
//! Written by hand because it is four message types and two checksums; the crates that do it need a protobuf compiler to
//! build or are no longer kept. Formats: TensorFlow's `event.proto` and `summary.proto`, framed as TFRecords.

use crate::error::TrainError;
use crate::metrics::Metrics;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The event file of this process: TensorBoard reads all files of a folder as one run.
pub struct EventFile {
    path: PathBuf,
    file: File,
}

impl EventFile {
    /// A new file in `folder`. Of a run that goes on after step `done`, later steps in older files are those that a
    /// crash undid: TensorBoard is told to forget them.
    ///
    /// # Errors
    /// The file system's, with the path.
    pub fn create(folder: &Path, done: Option<usize>) -> Result<Self, TrainError> {
        let now = now();
        let mut number = 0;
        let (path, file) = loop {
            // TensorBoard takes the files of a folder in the order of their names.
            let path = folder.join(format!("events.out.tfevents.{:010}.rex.{number}", now as u64));
            match File::create_new(&path) {
                Ok(file) => break (path, file),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(source) => return Err(TrainError::Io { path, source }),
            }
        };
        let mut events = Self { path, file };
        let start = restart(now, done.map_or(0, |done| done + 1));
        events.write(&[record(&version(now)), record(&start)].concat())?;
        Ok(events)
    }

    /// # Errors
    /// The file system's, with the path.
    pub fn append(&mut self, metrics: &Metrics) -> Result<(), TrainError> {
        self.write(&record(&scalars(now(), metrics.step(), metrics.iter())))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), TrainError> {
        let path = &self.path;
        self.file.write_all(bytes).map_err(|source| TrainError::Io { path: path.clone(), source })
    }
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// `Event { wall_time, file_version }`, the first of every file.
fn version(time: f64) -> Vec<u8> {
    let mut event = event(time, 0);
    bytes_field(&mut event, 3, b"brain.Event:2");
    event
}

/// `Event { wall_time, step, session_log { status: START } }`: forget what older files say of this step and later ones.
fn restart(time: f64, step: usize) -> Vec<u8> {
    let mut event = event(time, step);
    bytes_field(&mut event, 7, &[0x08, 0x01]);
    event
}

/// `Event { wall_time, step, summary { value { tag, simple_value }* } }`.
fn scalars<'m>(time: f64, step: usize, values: impl Iterator<Item = (&'m str, f64)>) -> Vec<u8> {
    let mut summary = Vec::new();
    for (tag, number) in values {
        let mut value = Vec::new();
        bytes_field(&mut value, 1, tag.as_bytes());
        value.push(2 << 3 | FIXED32);
        value.extend((number as f32).to_le_bytes());
        bytes_field(&mut summary, 1, &value);
    }
    let mut event = event(time, step);
    bytes_field(&mut event, 5, &summary);
    event
}

const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

fn event(time: f64, step: usize) -> Vec<u8> {
    let mut event = vec![1 << 3 | FIXED64];
    event.extend(time.to_le_bytes());
    // proto3 leaves out a zero.
    if step > 0 {
        event.push(2 << 3);
        varint(&mut event, step as u64);
    }
    event
}

fn bytes_field(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | BYTES);
    varint(message, bytes.len() as u64);
    message.extend(bytes);
}

fn varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

/// A TFRecord: length, its checksum, the data, its checksum.
fn record(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length), data, &masked_crc(data)].concat()
}

fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What TensorBoard's own writer makes of the same events; `tests/fixtures/tensorboard/make.py` made it.
    #[test]
    fn equal_to_tensorboards_own_bytes() {
        let expected = include_bytes!("../tests/fixtures/tensorboard/events.tfevents");
        let values = [("rex/em", 0.25), ("actor/pg_loss", -1.5e-3), ("timing_s/step", 0.0), ("é", f64::NAN)];
        let events = [
            version(1_700_000_000.25),
            restart(1_700_000_000.25, 300),
            scalars(1_700_000_001.5, 300, values.into_iter()),
            scalars(1_700_000_002.5, 0, [("rex/em", 1.0)].into_iter()),
        ];
        assert_eq!(events.map(|event| record(&event)).concat(), expected);
    }

    #[test]
    fn every_process_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        for done in [None, Some(3)] {
            let mut metrics = Metrics::new(done.unwrap_or_default() + 1);
            metrics.set("loss", 0.5);
            EventFile::create(folder.path(), done).unwrap().append(&metrics).unwrap();
        }
        let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap()).collect();
        assert_eq!(files.len(), 2);
        assert!(files.iter().all(|file| file.metadata().unwrap().len() > 60));
    }
}
