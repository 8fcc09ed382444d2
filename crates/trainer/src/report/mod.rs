//! `report.html`: a run in one file that needs no network: curves, warnings, answers before and after training, transcripts
//! token by token, the configuration.
//!
//! Reading order: [`run`], what can be read of a run directory; [`headline`], [`curves`] (with [`chart`] and [`axis`]), [`samples`] and
//! [`transcripts`], what is shown of it; [`page`], the page. Whatever a run directory lacks is left out, and said so on
//! the page: the report of a run under way, or of one that a crash broke, is made all the same.
//!
//! All text is untrusted (a model and a corpus wrote it). The template escapes it, the scripts only ever set it as text,
//! and the page's content security policy allows the page's own style and scripts by their hashes and nothing else.

mod chart;
mod curves;
mod headline;
mod page;
mod run;
mod samples;
mod shown;
mod transcripts;

use crate::error::TrainError;
use crate::run_dir::replace_file;
use run::Run;
use std::path::{Path, PathBuf};

/// Writes the report of the run in `root` to `out`, or to its `report.html`; returns where it is.
///
/// # Errors
/// [`TrainError::NothingToReport`] where `root` holds no run; the file system's, with the path.
pub fn write(root: &Path, out: Option<&Path>) -> Result<PathBuf, TrainError> {
    let mut run = Run::read(root)?;
    let page = page::render(&mut run)?;
    let path = out.map_or_else(|| run.dir.report(), Path::to_path_buf);
    replace_file(&path, page.as_bytes())?;
    Ok(path)
}
