//! The BM25 index: opened from a folder or from memory, searched from any thread.

use super::lengths::Lengths;
use super::{Document, IndexError, Passage, RetrievalError, Retriever, analyzer, bm25, schema};
#[cfg(not(target_family = "wasm"))]
use rayon::prelude::*;
use std::sync::Arc;
use tantivy::columnar::ColumnValues;
use tantivy::directory::RamDirectory;
use tantivy::store::StoreReader;
use tantivy::tokenizer::TextAnalyzer;
use tantivy::{DocId, Index, IndexSettings, InvertedIndexReader, SegmentReader, TantivyDocument, Term};

/// Blocks of stored documents that each segment keeps decompressed.
const CACHED_BLOCKS: usize = 64;

/// A BM25 index (k1 0.9, b 0.4, English) over a corpus.
///
/// Any string can be searched for; it is analysed into terms like the passages. Equal scores are in corpus order, so
/// that results do not depend on how the index was built.
pub struct Bm25Index {
    index: Index,
    fields: schema::Fields,
    analyzer: TextAnalyzer,
    segments: Vec<Segment>,
    /// Named in messages: the folder, or "memory".
    place: String,
}

/// Numbers about an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    pub passages: u64,
    pub segments: usize,
    /// Terms of all passages, repeated ones counted as often as they occur.
    pub terms: u64,
}

/// tantivy's readers of one part of the index.
pub(super) struct Segment {
    name: String,
    pub(super) terms: Arc<InvertedIndexReader>,
    pub(super) lengths: Lengths,
    /// Number of passages.
    pub(super) passages: DocId,
    pub(super) positions: Arc<dyn ColumnValues<u64>>,
    documents: StoreReader,
}

impl Bm25Index {
    /// An index of a corpus that fits in memory. Starts no thread and touches no file.
    pub fn in_memory(documents: impl IntoIterator<Item = Document>) -> Result<Self, IndexError> {
        /// What the postings of one segment may take; without threads there is only one, however large.
        const MEMORY_BUDGET: usize = 1 << 30;
        let settings = IndexSettings { docstore_compress_dedicated_thread: false, ..Default::default() };
        let (builder, fields) = schema::new_index();
        let mut writer =
            builder.settings(settings).single_segment_index_writer(RamDirectory::create(), MEMORY_BUDGET)?;
        for (position, document) in documents.into_iter().enumerate() {
            writer.add_document(fields.encode(document, position as u64))?;
        }
        Self::new(writer.finalize()?, "memory".to_string())
    }

    /// Opens the index in a folder: it costs little memory, whatever its size.
    #[cfg(not(target_family = "wasm"))]
    pub fn open(folder: &std::path::Path) -> Result<Self, IndexError> {
        let place = folder.display().to_string();
        if !folder.join("meta.json").is_file() {
            let reason = if folder.is_dir() { "no meta.json" } else { "no such folder" };
            return Err(IndexError::NotAnIndex { place, reason: reason.to_string() });
        }
        let index = (super::folder::IndexFolder::open(folder).map_err(tantivy::TantivyError::from))
            .and_then(Index::open)
            .map_err(|error| IndexError::Damaged { place: place.clone(), reason: error.to_string() })?;
        Self::new(index, place)
    }

    pub(super) fn new(index: Index, place: String) -> Result<Self, IndexError> {
        let Some(fields) = schema::Fields::of(&index) else {
            return Err(IndexError::Outdated { place });
        };
        let segments = (index.searchable_segments())
            .and_then(|segments| segments.iter().map(|segment| Segment::open(segment, fields)).collect())
            .map_err(|error| IndexError::Damaged { place: place.clone(), reason: error.to_string() })?;
        Ok(Self { index, fields, analyzer: analyzer::analyzer(), segments, place })
    }

    /// Number of passages.
    pub fn len(&self) -> u64 {
        self.segments.iter().map(Segment::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `topk` best passages, best first; fewer where fewer hold a term of the query.
    pub fn search(&self, query: &str, topk: usize) -> Result<Vec<Passage>, RetrievalError> {
        if topk == 0 {
            return Ok(Vec::new());
        }
        let terms: Vec<_> = analyzer::query_terms(&self.analyzer, query)
            .into_iter()
            .map(|(text, count)| (Term::from_field_text(self.fields.contents, &text), count))
            .collect();
        let hits = bm25::top(&self.segments, &terms, topk).map_err(|error| self.damaged(error))?;
        hits.into_iter().map(|hit| Ok(self.passage(hit)?)).collect()
    }

    /// What the index holds.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            passages: self.len(),
            segments: self.segments.len(),
            terms: self.segments.iter().map(|segment| segment.terms.total_num_tokens()).sum(),
        }
    }

    /// Names this build of the index: another one, even of the same corpus, has another name.
    pub fn fingerprint(&self) -> String {
        self.segments.iter().map(|segment| segment.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    /// The passage that [`documents`](Self::documents) gives as number `row`.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn document(&self, row: u64) -> Result<Document, IndexError> {
        let mut doc = row;
        for segment in &self.segments {
            if doc < segment.len() {
                let stored = segment.documents.get(doc as DocId).map_err(|error| self.damaged(error))?;
                return self.decode(&stored);
            }
            doc -= segment.len();
        }
        panic!("there is no passage {row} of {}", self.len())
    }

    /// Every passage, in an order that stays the same for this build of the index.
    pub fn documents(&self) -> impl Iterator<Item = Result<Document, IndexError>> {
        let stored = self.segments.iter().flat_map(|segment| segment.documents.iter(None));
        stored.map(|stored: tantivy::Result<TantivyDocument>| {
            let stored = stored.map_err(|error| self.damaged(error))?;
            self.decode(&stored)
        })
    }

    fn decode(&self, stored: &TantivyDocument) -> Result<Document, IndexError> {
        self.fields.decode(stored).ok_or_else(|| self.damaged("a document without id or contents"))
    }

    fn passage(&self, hit: bm25::Hit) -> Result<Passage, IndexError> {
        let stored: TantivyDocument =
            self.segments[hit.segment].documents.get(hit.doc).map_err(|error| self.damaged(error))?;
        let Document { id, contents } = self.decode(&stored)?;
        Ok(Passage { id, contents, score: hit.score })
    }

    fn damaged(&self, reason: impl ToString) -> IndexError {
        IndexError::Damaged { place: self.place.clone(), reason: reason.to_string() }
    }

    pub(super) fn tantivy(&self) -> &Index {
        &self.index
    }
}

impl Retriever for Bm25Index {
    #[cfg(target_family = "wasm")]
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        queries.iter().map(|query| self.search(query, topk)).collect()
    }

    /// Answers the queries on all cores.
    #[cfg(not(target_family = "wasm"))]
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        queries.par_iter().map(|query| self.search(query, topk)).collect()
    }
}

impl Segment {
    // Not through tantivy's `IndexReader`: that locks the folder, which may be read-only, and watches it for changes.
    fn open(segment: &tantivy::Segment, fields: schema::Fields) -> tantivy::Result<Self> {
        let reader = SegmentReader::open(segment)?;
        Ok(Self {
            name: segment.id().uuid_string(),
            terms: reader.inverted_index(fields.contents)?,
            lengths: Lengths::open(segment)?,
            passages: reader.max_doc(),
            positions: reader.fast_fields().u64(schema::POSITION)?.first_or_default_col(0),
            documents: reader.get_store_reader(CACHED_BLOCKS)?,
        })
    }

    pub(super) fn len(&self) -> u64 {
        u64::from(self.passages)
    }
}
