//! An index as one blob of bytes, for those who have no folder: a browser fetches it and searches it in memory.
//!
//! The format is a signature, then for each file: the length of its name (u32), the name, the length of the data (u64), the
//! data. Little-endian.

use super::{Bm25Index, IndexError};
use std::path::{Path, PathBuf};
use tantivy::Index;
use tantivy::directory::error::OpenReadError;
use tantivy::directory::{Directory, RamDirectory};

const SIGNATURE: &[u8] = b"REX INDEX 1\n";
/// tantivy's list of its files, by which it finds the checksums to verify.
const MANAGED: &str = ".managed.json";

impl Bm25Index {
    /// The whole index as bytes for [`Bm25Index::from_bytes`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, IndexError> {
        let directory = self.tantivy().directory();
        let mut files: Vec<PathBuf> = directory.list_managed_files().into_iter().collect();
        files.push(PathBuf::from(MANAGED));
        files.sort();
        let mut bytes = SIGNATURE.to_vec();
        for file in files {
            let data = match directory.atomic_read(&file) {
                // Listed, but of a kind that this index does not need, or removed since.
                Err(OpenReadError::FileDoesNotExist(_)) => continue,
                data => data.map_err(tantivy::TantivyError::from)?,
            };
            let name = file.to_str().expect("tantivy names its files in ASCII").as_bytes();
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend(name);
            bytes.extend((data.len() as u64).to_le_bytes());
            bytes.extend(data);
        }
        Ok(bytes)
    }

    /// Opens what [`Bm25Index::to_bytes`] wrote, in memory, and verifies its checksums.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, IndexError> {
        let place = || "these bytes".to_string();
        let damaged =
            |reason: &dyn ToString| IndexError::Damaged { place: place(), reason: reason.to_string() };
        let mut rest = bytes.strip_prefix(SIGNATURE).ok_or_else(|| IndexError::NotAnIndex {
            place: place(),
            reason: "they do not begin with the signature of one".to_string(),
        })?;
        let directory = RamDirectory::create();
        while !rest.is_empty() {
            let (name, data) = next_file(&mut rest).ok_or_else(|| damaged(&"the end is missing"))?;
            directory.atomic_write(Path::new(name), data).map_err(|error| damaged(&error))?;
        }
        let index = Index::open(directory).map_err(|error| damaged(&error))?;
        let broken = index.validate_checksum().map_err(|error| damaged(&error))?;
        if let Some(file) = broken.iter().min() {
            return Err(damaged(&format!("the checksum of {} is wrong", file.display())));
        }
        Self::new(index, place())
    }
}

/// Takes the first file off `bytes`; `None` where they end before it does.
fn next_file<'a>(bytes: &mut &'a [u8]) -> Option<(&'a str, &'a [u8])> {
    let name_len = u32::from_le_bytes(*bytes.split_off(..4)?.as_array()?);
    let name = std::str::from_utf8(bytes.split_off(..name_len as usize)?).ok()?;
    let data_len = u64::from_le_bytes(*bytes.split_off(..8)?.as_array()?);
    let data = bytes.split_off(..usize::try_from(data_len).ok()?)?;
    Some((name, data))
}
