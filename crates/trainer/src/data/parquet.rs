//! Rows of a parquet file as JSON objects, so that one reader serves both formats.

use super::error::{DataError, FileProblem, Place, Unit};
use super::objects::Object;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Whether the file begins as parquet does.
pub(super) fn is_parquet(path: &Path) -> Result<bool, DataError> {
    let failed = |source| DataError::Read { file: path.to_path_buf(), source };
    let mut start = Vec::new();
    File::open(path).map_err(failed)?.take(4).read_to_end(&mut start).map_err(failed)?;
    Ok(start == b"PAR1")
}

pub(super) fn rows(path: &Path) -> Result<Vec<Object>, DataError> {
    let file: Arc<Path> = path.into();
    let fault = |problem| DataError::File { file: path.to_path_buf(), problem };
    let broken = |error: ParquetError| fault(FileProblem::Parquet(error.to_string()));
    let opened = File::open(path).map_err(|source| DataError::Read { file: path.to_path_buf(), source })?;
    let reader = SerializedFileReader::new(opened).map_err(broken)?;
    let mut objects = Vec::new();
    for (index, row) in reader.get_row_iter(None).map_err(broken)?.enumerate() {
        let Value::Object(fields) = row.map_err(broken)?.to_json_value() else {
            unreachable!("a row has named columns")
        };
        let place = Place { file: file.clone(), unit: Unit::Row, number: index as u64 + 1 };
        objects.push(Object { place, fields });
    }
    if objects.is_empty() { Err(fault(FileProblem::Empty)) } else { Ok(objects) }
}
