//! Approximate search: a graph of near neighbours (HNSW, by USearch) over the vectors of an index, in a memory-mapped file
//! beside them.
//!
//! It proposes passages by the angle between rounded vectors; their scores are those of the exact search.

use super::vectors::{Vectors, rounded};
use crate::run_dir::publish;
use rayon::prelude::*;
use rex_rollout::retrieval::IndexError;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use usearch::{Index, IndexOptions, MetricKind, ScalarKind};

/// Beside the vectors. Written after them, and removed before others are written.
pub(super) const NAME: &str = "vectors.usearch";

/// The graph over the vectors of an index.
pub(super) struct Graph(Index);

impl Graph {
    /// Maps the graph in `folder`; `None` where there is none.
    ///
    /// # Errors
    /// When it is damaged, or is not over `vectors`.
    pub(super) fn open(folder: &Path, vectors: &Vectors) -> Result<Option<Self>, IndexError> {
        let damaged = |reason: String| IndexError::Damaged {
            place: folder.display().to_string(),
            reason: format!("{NAME}: {reason}"),
        };
        let path = folder.join(NAME);
        if !path.is_file() {
            return Ok(None);
        }
        let index = empty(vectors.dim()).map_err(damaged)?;
        let path = path.to_str().ok_or_else(|| damaged("its path is not in UTF-8".to_string()))?;
        index.view(path).map_err(|error| damaged(error.to_string()))?;
        if index.size() != vectors.len() || index.dimensions() != vectors.dim() {
            return Err(damaged("it is over other vectors".to_string()));
        }
        Ok(Some(Self(index)))
    }

    /// Numbers of the passages to look at for the `k` nearest to a query, in no order.
    ///
    /// # Errors
    /// When the file is damaged.
    pub(super) fn candidates(&self, query: &[f32], k: usize) -> Result<Vec<usize>, String> {
        /// Passages looked at for each that is wanted, and at least: what rounding and the graph's short cuts put in the
        /// wrong order is put right among them.
        const FACTOR: usize = 4;
        const LEAST: usize = 64;
        let wanted = k.saturating_mul(FACTOR).max(LEAST).min(self.0.size());
        let found = self.0.search(&rounded(query).1, wanted).map_err(|error| error.to_string())?;
        Ok(found.keys.into_iter().map(|key| key as usize).filter(|row| *row < self.0.size()).collect())
    }
}

/// Writes the graph over `vectors`, which are in `folder`. `progress` is told how many are in it.
///
/// The order in which threads add vectors decides which of many equally good graphs it is.
///
/// # Errors
/// When it does not fit into memory or cannot be written.
pub(super) fn write(folder: &Path, vectors: &Vectors, progress: &mut dyn FnMut(usize)) -> io::Result<()> {
    /// Vectors between two looks at the progress.
    const STRIDE: usize = 4096;
    /// Added one after another: threads that begin a graph together do not see each other's vectors, and some stay unlinked.
    const ALONE: usize = 1024;
    let failed = |error: &dyn ToString| io::Error::other(format!("{NAME}: {}", error.to_string()));
    let index = empty(vectors.dim()).map_err(|error| failed(&error))?;
    let threads = rayon::current_num_threads();
    index.reserve_capacity_and_threads(vectors.len(), threads).map_err(|error| failed(&error))?;
    let add = |row: usize| index.add(row as u64, vectors.numbers(row)).map_err(|error| failed(&error));
    let alone = ALONE.min(vectors.len());
    (0..alone).try_for_each(add)?;
    for start in (alone..vectors.len()).step_by(STRIDE) {
        let end = (start + STRIDE).min(vectors.len());
        // As many tasks as the graph expects threads.
        let next = AtomicUsize::new(start);
        let link = || {
            while let row = next.fetch_add(1, Ordering::Relaxed)
                && row < end
            {
                add(row)?;
            }
            Ok::<_, io::Error>(())
        };
        (0..threads).into_par_iter().try_for_each(|_| link())?;
        progress(end);
    }
    progress(vectors.len());
    let (target, aside) = (folder.join(NAME), folder.join(format!("{NAME}.partial")));
    let path = aside.to_str().ok_or_else(|| failed(&"its path is not in UTF-8"))?;
    index.save(path).map_err(|error| failed(&error))?;
    publish(&aside, &target)
}

fn empty(dim: usize) -> Result<Index, String> {
    /// Neighbours of a node, and how widely they are looked for. Questions lie apart from passages: with USearch's defaults (16,
    /// 128, 64) the graph finds 92 % of their ten best, so 99.8 %, for twice the time to build (LOG.md).
    const CONNECTIVITY: usize = 32;
    const EXPANSION_ADD: usize = 256;
    const EXPANSION_SEARCH: usize = 256;
    let options = IndexOptions {
        dimensions: dim,
        metric: MetricKind::Cos,
        quantization: ScalarKind::I8,
        connectivity: CONNECTIVITY,
        expansion_add: EXPANSION_ADD,
        expansion_search: EXPANSION_SEARCH,
        multi: false,
    };
    Index::new(&options).map_err(|error| error.to_string())
}
