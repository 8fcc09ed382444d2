//! The number of terms of each passage, exactly.
//!
//! tantivy, like Lucene, stores lengths in one byte, rounded: for 3 questions in 100 that makes another passage the best. This
//! plugin of tantivy's gives each segment one more file, a `u32` (little-endian) a passage, in the order of the segment.
//! Passages without terms at the end are left out.

use std::any::Any;
use std::io::Write;
use tantivy::directory::{OwnedBytes, TerminatingWrite};
use tantivy::index::SegmentComponent;
use tantivy::indexer::DocIdMapping;
use tantivy::plugin::{PluginMergeContext, PluginWriter, PluginWriterContext, SegmentPlugin};
use tantivy::postings::Postings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, Segment, SegmentReader, TERMINATED};

const EXTENSION: &str = "lengths";

/// The lengths of a segment's passages.
pub(super) struct Lengths(OwnedBytes);

impl Lengths {
    pub(super) fn open(segment: &Segment) -> tantivy::Result<Self> {
        Ok(Self(segment.open_read(component())?.read_bytes()?))
    }

    /// Number of terms of a passage.
    pub(super) fn get(&self, doc: DocId) -> u32 {
        let bytes = self.0.get(doc as usize * size_of::<u32>()..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }
}

/// Writes the lengths of new and of merged segments, from their postings.
pub(super) struct LengthsPlugin {
    pub(super) contents: Field,
}

impl SegmentPlugin for LengthsPlugin {
    fn extensions(&self) -> &[&str] {
        &[EXTENSION]
    }

    fn create_writer(&self, _: &PluginWriterContext) -> tantivy::Result<Box<dyn PluginWriter>> {
        Ok(Box::new(LengthsWriter { contents: self.contents }))
    }

    fn merge(&self, context: PluginMergeContext) -> tantivy::Result<()> {
        write(context.target_segment, self.contents)
    }
}

struct LengthsWriter {
    contents: Field,
}

impl PluginWriter for LengthsWriter {
    fn serialize(self: Box<Self>, segment: &Segment, _: Option<&DocIdMapping>) -> tantivy::Result<()> {
        write(segment, self.contents)
    }

    fn mem_usage(&self) -> usize {
        0
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// Adds up the frequencies of a segment whose postings are written.
fn write(segment: &Segment, contents: Field) -> tantivy::Result<()> {
    let terms = SegmentReader::open(segment)?.inverted_index(contents)?;
    let mut lengths: Vec<u32> = Vec::new();
    let mut stream = terms.terms().stream()?;
    while stream.advance() {
        let mut postings = terms.read_postings_from_terminfo(stream.value(), IndexRecordOption::WithFreqs)?;
        while postings.doc() != TERMINATED {
            let doc = postings.doc() as usize;
            if lengths.len() <= doc {
                lengths.resize(doc + 1, 0);
            }
            lengths[doc] = lengths[doc].saturating_add(postings.term_freq());
            postings.advance();
        }
    }
    let mut file = segment.open_write(component())?;
    for length in lengths {
        file.write_all(&length.to_le_bytes())?;
    }
    Ok(file.terminate()?)
}

fn component() -> SegmentComponent {
    SegmentComponent::Custom(EXTENSION.to_string())
}
