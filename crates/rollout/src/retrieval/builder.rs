//! Builds an index in a folder, of a corpus of any size in constant memory.

use super::{Bm25Index, Document, IndexError, schema};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io, thread};
use tantivy::IndexWriter;

/// The file that makes a folder an index: it names all the others.
const META: &str = "meta.json";

/// Writes an index: [`add`](Self::add) every document, then [`finish`](Self::finish).
///
/// The work goes on in a folder beside the target. Until `finish` succeeds the target keeps the index that it may hold,
/// whatever happens to the process.
pub struct IndexBuilder {
    target: PathBuf,
    aside: PathBuf,
    fields: schema::Fields,
    writer: Option<IndexWriter>,
    documents: u64,
}

impl IndexBuilder {
    /// # Errors
    /// When `target` cannot be written, or holds anything but an index.
    pub fn create(target: &Path) -> Result<Self, IndexError> {
        /// For the postings of all threads together, before they go to disk.
        const MEMORY_BUDGET: usize = 512 << 20;
        const MAX_THREADS: usize = 8;

        let aside = beside(target);
        let failed = |source| IndexError::Write { folder: target.to_path_buf(), source };
        if is_occupied(target).map_err(failed)? {
            return Err(IndexError::Occupied { folder: target.to_path_buf() });
        }
        // What a build that was killed has left.
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(failed)?;
        }
        fs::create_dir_all(&aside).map_err(failed)?;
        let (builder, fields) = schema::new_index();
        let threads = thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
        let writer = builder.create_in_dir(&aside)?.writer_with_num_threads(threads, MEMORY_BUDGET)?;
        Ok(Self { target: target.to_path_buf(), aside, fields, writer: Some(writer), documents: 0 })
    }

    pub fn add(&mut self, document: Document) -> Result<(), IndexError> {
        let writer = self.writer.as_ref().expect("there is a writer until `finish`");
        writer.add_document(self.fields.encode(document, self.documents))?;
        self.documents += 1;
        Ok(())
    }

    /// Puts the index in its place, at once, and opens it.
    pub fn finish(mut self) -> Result<Bm25Index, IndexError> {
        let mut writer = self.writer.take().expect("there is a writer until `finish`");
        writer.commit()?;
        writer.wait_merging_threads()?;
        publish(&self.aside, &self.target)
            .map_err(|source| IndexError::Write { folder: self.target.clone(), source })?;
        Bm25Index::open(&self.target)
    }
}

impl Drop for IndexBuilder {
    fn drop(&mut self) {
        drop(self.writer.take());
        // Nothing depends on it: the next build removes what is left.
        let _ = fs::remove_dir_all(&self.aside);
    }
}

/// `DIR.partial`, on the same file system as `DIR`.
fn beside(target: &Path) -> PathBuf {
    let mut name = target.components().as_path().as_os_str().to_os_string();
    name.push(".partial");
    PathBuf::from(name)
}

/// Whether the folder holds files, but no index: not ours to replace.
fn is_occupied(folder: &Path) -> io::Result<bool> {
    match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        entries => Ok(entries?.next().is_some() && !folder.join(META).is_file()),
    }
}

/// Moves the files of a finished index into `target`, `meta.json` last: segments have unique names, so the old index
/// stays whole until that one rename replaces it.
fn publish(finished: &Path, target: &Path) -> io::Result<()> {
    fs::create_dir_all(target)?;
    // tantivy's locks served the build only; its JSON files only their owner can read.
    for name in files(finished)? {
        let file = finished.join(&name);
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("lock") => fs::remove_file(file)?,
            Some("json") => rewrite(&file)?,
            _ => {}
        }
    }
    let old = files(target)?;
    let new = files(finished)?;
    for name in new.iter().filter(|name| *name != META) {
        fs::rename(finished.join(name), target.join(name))?;
    }
    sync(target)?;
    fs::rename(finished.join(META), target.join(META))?;
    sync(target)?;
    for name in old.difference(&new).filter(|name| is_segment_file(name)) {
        // A reader may have it open, which Windows does not allow to remove; a stray file harms nobody.
        let _ = fs::remove_file(target.join(name));
    }
    Ok(())
}

/// Gives a file the permissions of an ordinary new one.
fn rewrite(file: &Path) -> io::Result<()> {
    let data = fs::read(file)?;
    fs::remove_file(file)?;
    let mut file = fs::File::create(file)?;
    file.write_all(&data)?;
    file.sync_all()
}

fn files(folder: &Path) -> io::Result<HashSet<OsString>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
}

/// `32 hexadecimal digits.extension`, as tantivy names the files of a segment.
fn is_segment_file(name: &OsString) -> bool {
    let stem = Path::new(name).file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem.len() == 32 && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Makes the names in a folder durable, where the system has a way to.
fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}
