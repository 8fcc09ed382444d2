//! JSON objects, one a line, plain or gzipped; and typed access to their fields, with the place in every error.

use super::error::{DataError, FileProblem, Place, RowProblem, Unit};
use flate2::bufread::MultiGzDecoder;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads a JSONL file from front to back in constant memory.
pub(super) struct Objects {
    file: Arc<Path>,
    reader: Box<dyn BufRead + Send>,
    line: u64,
    bytes: Vec<u8>,
    read: Arc<AtomicU64>,
}

/// One line of JSONL, or one row of parquet.
pub(super) struct Object {
    pub(super) place: Place,
    pub(super) fields: Map<String, Value>,
}

impl Objects {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |source| DataError::Read { file: path.to_path_buf(), source };
        let read = Arc::new(AtomicU64::new(0));
        let file = Counted { inner: File::open(path).map_err(failed)?, read: read.clone() };
        let mut file = BufReader::with_capacity(1 << 16, file);
        let gzipped = file.fill_buf().map_err(failed)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead + Send> =
            if gzipped { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
        Ok(Self { file: path.into(), reader, line: 0, bytes: Vec::new(), read })
    }

    /// Bytes of the file read so far, compressed ones where it is.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn next_object(&mut self) -> Result<Option<Object>, DataError> {
        let first = self.line == 0;
        loop {
            self.bytes.clear();
            let count = self.reader.read_until(b'\n', &mut self.bytes).map_err(|error| self.broken(error))?;
            if count == 0 {
                let file = self.file.to_path_buf();
                return if first {
                    Err(DataError::File { file, problem: FileProblem::Empty })
                } else {
                    Ok(None)
                };
            }
            self.line += 1;
            let place = Place { file: self.file.clone(), unit: Unit::Line, number: self.line };
            let problem = |problem| DataError::Row { place: place.clone(), problem };
            let mut text = std::str::from_utf8(&self.bytes).map_err(|_| problem(RowProblem::NotUtf8))?;
            if self.line == 1 {
                text = text.trim_start_matches('\u{feff}');
            }
            text = text.trim_end();
            if text.is_empty() {
                continue;
            }
            let fields =
                serde_json::from_str(text).map_err(|error| problem(RowProblem::Json(reason(&error))))?;
            return Ok(Some(Object { place, fields }));
        }
    }

    fn broken(&self, source: std::io::Error) -> DataError {
        let file = self.file.to_path_buf();
        match source.kind() {
            ErrorKind::UnexpectedEof => DataError::File { file, problem: FileProblem::CutOff },
            _ => DataError::Read { file, source },
        }
    }
}

/// Ends behind the first error.
impl Iterator for Objects {
    type Item = Result<Object, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_object().transpose();
        if matches!(next, Some(Err(_))) {
            self.reader = Box::new(std::io::empty());
            self.line = self.line.max(1);
        }
        next
    }
}

/// serde_json's message; the line in it is always 1.
fn reason(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

impl Object {
    /// The text of a field.
    pub(super) fn text(&mut self, field: &'static str, needed: &'static str) -> Result<String, DataError> {
        match self.fields.remove(field) {
            None | Some(Value::Null) => Err(self.problem(RowProblem::Missing { field, needed })),
            Some(Value::String(text)) if text.trim().is_empty() => {
                Err(self.problem(RowProblem::NoText { field }))
            }
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(self.wrong(field, "a string", &other)),
        }
    }

    /// `id`: a string, or the number that some corpora have.
    pub(super) fn id(&mut self) -> Result<Option<String>, DataError> {
        match self.fields.remove("id") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(id)) => Ok(Some(id)),
            Some(Value::Number(id)) if !id.is_f64() => Ok(Some(id.to_string())),
            Some(other) => Err(self.wrong("id", "a string or an integer", &other)),
        }
    }

    pub(super) fn problem(&self, problem: RowProblem) -> DataError {
        DataError::Row { place: self.place.clone(), problem }
    }

    pub(super) fn wrong(&self, field: &'static str, expected: &'static str, found: &Value) -> DataError {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.problem(RowProblem::Type { field, expected, found })
    }
}

/// Counts the bytes that are read.
struct Counted {
    inner: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}
