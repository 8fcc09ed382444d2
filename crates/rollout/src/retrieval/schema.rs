//! What the index keeps of a document.

use super::lengths::LengthsPlugin;
use super::{Document, analyzer};
use std::sync::Arc;
use tantivy::schema::{
    FAST, Field, IndexRecordOption, STORED, Schema, TextFieldIndexing, TextOptions, Value,
};
use tantivy::tokenizer::TokenizerManager;
use tantivy::{Index, IndexBuilder, TantivyDocument};

/// Column of a document's place in the corpus, which decides between equal scores: tantivy's own numbering depends on
/// how threads and merges went.
pub(super) const POSITION: &str = "position";

#[derive(Clone, Copy)]
pub(super) struct Fields {
    id: Field,
    /// Title and text together: searched and returned.
    pub(super) contents: Field,
    position: Field,
}

impl Fields {
    /// Of an index of this version; `None` where its schema is another.
    pub(super) fn of(index: &Index) -> Option<Self> {
        let (schema, fields) = schema();
        (index.schema() == schema).then_some(fields)
    }

    pub(super) fn encode(self, document: Document, position: u64) -> TantivyDocument {
        let mut stored = TantivyDocument::new();
        stored.add_text(self.id, document.id);
        stored.add_text(self.contents, document.contents);
        stored.add_u64(self.position, position);
        stored
    }

    pub(super) fn decode(self, stored: &TantivyDocument) -> Option<Document> {
        let text = |field| Some(stored.get_first(field)?.as_str()?.to_string());
        Some(Document { id: text(self.id)?, contents: text(self.contents)? })
    }
}

/// An empty index, yet without a place.
pub(super) fn new_index() -> (IndexBuilder, Fields) {
    let (schema, fields) = schema();
    let tokenizers = TokenizerManager::default();
    tokenizers.register(analyzer::NAME, analyzer::analyzer());
    let lengths = Arc::new(LengthsPlugin { contents: fields.contents });
    (Index::builder().schema(schema).tokenizers(tokenizers).register_plugin(lengths), fields)
}

fn schema() -> (Schema, Fields) {
    // BM25 needs frequencies; positions would serve phrases, which no query can ask for. Lengths are kept aside, exactly.
    let terms = TextFieldIndexing::default()
        .set_tokenizer(analyzer::NAME)
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(false);
    let mut builder = Schema::builder();
    let fields = Fields {
        id: builder.add_text_field("id", STORED),
        contents: builder.add_text_field("contents", TextOptions::from(STORED).set_indexing_options(terms)),
        position: builder.add_u64_field(POSITION, FAST),
    };
    (builder.build(), fields)
}
