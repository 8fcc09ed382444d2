//! Rows of a parquet file as JSON objects, so that one reader serves both formats.

use super::error::{DataError, FileProblem, Place, Unit};
use super::objects::Object;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Row;
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
    let fault = |problem| DataError::File { file: path.to_path_buf(), problem };
    let file = File::open(path).map_err(|source| DataError::Read { file: path.to_path_buf(), source })?;
    // The parquet crate asserts some of what a damaged file breaks.
    let rows = std::panic::catch_unwind(|| -> Result<Vec<Row>, ParquetError> {
        SerializedFileReader::new(file)?.get_row_iter(None)?.collect()
    });
    let damaged = |_| ParquetError::General("its pages make no sense".to_string());
    let rows =
        rows.map_err(damaged).flatten().map_err(|error| fault(FileProblem::Parquet(error.to_string())))?;
    if rows.is_empty() {
        return Err(fault(FileProblem::Empty));
    }
    let file: Arc<Path> = path.into();
    let object = |(row, number): (Row, u64)| {
        let Value::Object(fields) = row.to_json_value() else { unreachable!("a row has named columns") };
        Object { place: Place { file: file.clone(), unit: Unit::Row, number }, fields }
    };
    Ok(rows.into_iter().zip(1..).map(object).collect())
}
