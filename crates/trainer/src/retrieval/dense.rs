//! Search by meaning: the passages whose vectors are nearest to the query's.

use super::graph::{self, Graph};
use super::vectors::{Hit, VectorWriter, Vectors};
use crate::error::TrainError;
use burn::tensor::Device;
use rayon::prelude::*;
use rex_model::{SentenceEncoder, TextKind};
use rex_rollout::retrieval::{Bm25Index, IndexError};
use rex_rollout::{Passage, RetrievalError, Retriever};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Search over the vectors of an index: through the graph over them where there is one, else exact.
pub struct DenseRetriever {
    folder: PathBuf,
    index: Arc<Bm25Index>,
    vectors: Vectors,
    graph: Option<Graph>,
    /// One batch at a time: a pass uses all cores by itself.
    encoder: Mutex<SentenceEncoder>,
}

impl DenseRetriever {
    /// Opens the vectors beside `index`, in `folder`, and the encoder that made them.
    ///
    /// # Errors
    /// When there are none, or they or the encoder cannot be used.
    pub fn open(folder: &Path, index: Arc<Bm25Index>, device: &Device) -> Result<Self, TrainError> {
        let place = || folder.display().to_string();
        let vectors =
            Vectors::open(folder, &index)?.ok_or_else(|| IndexError::NoVectors { place: place() })?;
        let encoder = SentenceEncoder::load(vectors.encoder(), device)?;
        if encoder.dim() != vectors.dim() {
            let reason = format!("{} makes vectors of another length", vectors.encoder().display());
            return Err(IndexError::Damaged { place: place(), reason }.into());
        }
        let graph = Graph::open(folder, &vectors)?;
        Ok(Self { folder: folder.to_path_buf(), index, vectors, graph, encoder: Mutex::new(encoder) })
    }

    /// The nearest passages to each query.
    fn nearest(&self, queries: &[Vec<f32>], topk: usize) -> Result<Vec<Vec<Hit>>, IndexError> {
        let Some(graph) = self.graph.as_ref().filter(|_| topk > 0) else {
            return Ok(self.vectors.search(queries, topk));
        };
        let damaged = |reason| IndexError::Damaged { place: self.folder.display().to_string(), reason };
        let nearest = |query: &Vec<f32>| {
            let rows = graph.candidates(query, topk).map_err(damaged)?;
            Ok(self.vectors.best_of(&rows, query, topk))
        };
        queries.par_iter().map(nearest).collect()
    }
}

impl Retriever for DenseRetriever {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        let vectors = {
            let encoder = self.encoder.lock().unwrap_or_else(PoisonError::into_inner);
            encoder.encode(queries, TextKind::Query)
        };
        let passage = |(row, score): (usize, f32)| {
            let document = self.index.document(row as u64)?;
            Ok(Passage { id: document.id, contents: document.contents, score })
        };
        let lists = self.nearest(&vectors, topk)?.into_iter();
        lists.map(|hits| hits.into_iter().map(passage).collect()).collect()
    }
}

/// Writes a vector for every passage of `index` beside it, in `folder`. `progress` is told how many are done.
///
/// # Errors
/// An encoder that cannot be read, a damaged index, a disk that is full.
pub fn write_vectors(
    folder: &Path,
    index: &Bm25Index,
    encoder: &Path,
    device: &Device,
    progress: &mut dyn FnMut(usize),
) -> Result<(), TrainError> {
    /// Passages that are sorted by length together.
    const BATCH: usize = 1024;
    let io = |source| TrainError::Io { path: folder.to_path_buf(), source };
    let network = SentenceEncoder::load(encoder, device)?;
    let mut writer = VectorWriter::create(folder, index, network.dim(), encoder).map_err(io)?;
    let mut documents = index.documents();
    let mut done = 0;
    loop {
        let batch = documents.by_ref().take(BATCH).collect::<Result<Vec<_>, _>>()?;
        if batch.is_empty() {
            break;
        }
        let texts: Vec<&str> = batch.iter().map(|document| document.contents.as_str()).collect();
        for vector in network.encode(&texts, TextKind::Passage) {
            writer.add(&vector).map_err(io)?;
        }
        done += batch.len();
        progress(done);
    }
    writer.finish().map_err(io)
}

/// Writes a graph over the vectors of `index` beside them, in `folder`. `progress` is told how many are done.
///
/// # Errors
/// When there are no vectors, or the graph does not fit into memory or cannot be written.
pub fn write_graph(
    folder: &Path,
    index: &Bm25Index,
    progress: &mut dyn FnMut(usize),
) -> Result<(), TrainError> {
    let vectors = Vectors::open(folder, index)?
        .ok_or_else(|| IndexError::NoVectors { place: folder.display().to_string() })?;
    graph::write(folder, &vectors, progress)
        .map_err(|source| TrainError::Io { path: folder.to_path_buf(), source })
}
