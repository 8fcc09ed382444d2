//! Texts to vectors.

use super::bert::Bert;
use super::config::{EncoderConfig, Pooling};
use crate::log_probs::padded;
use crate::tokenizer::Tokenizer;

/// An encoder with its tokenizer.
#[derive(Debug)]
pub struct SentenceEncoder {
    pub config: EncoderConfig,
    pub(crate) network: Bert,
    pub(crate) tokenizer: Tokenizer,
    /// `[CLS]` and `[SEP]`, around every text.
    pub(crate) marks: [u32; 2],
}

/// Some encoders are told whether a text asks or answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextKind {
    Query,
    Passage,
}

impl SentenceEncoder {
    /// Length of a vector.
    pub fn dim(&self) -> usize {
        self.config.hidden_size
    }

    /// One vector a text, in order. Texts of like length are computed together; the company changes no vector by more than
    /// rounding.
    pub fn encode(&self, texts: &[&str], kind: TextKind) -> Vec<Vec<f32>> {
        /// Most tokens, padding included, of one forward pass.
        const PASS_TOKENS: usize = 4096;
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| self.ids(text, kind)).collect();
        let mut order: Vec<usize> = (0..ids.len()).collect();
        order.sort_by_key(|text| ids[*text].len());
        let mut vectors = vec![Vec::new(); ids.len()];
        let mut rest = &order[..];
        while !rest.is_empty() {
            // Sorted, so the last of a pass is the longest.
            let fits = |count: &usize| count * ids[rest[count - 1]].len() <= PASS_TOKENS;
            let count = (1..=rest.len()).take_while(fits).last().unwrap_or(1);
            let (pass, later) = rest.split_at(count);
            let rows: Vec<&[u32]> = pass.iter().map(|text| ids[*text].as_slice()).collect();
            for (text, vector) in pass.iter().zip(self.pass(&rows)) {
                vectors[*text] = vector;
            }
            rest = later;
        }
        vectors
    }

    fn ids(&self, text: &str, kind: TextKind) -> Vec<u32> {
        /// A token spells at least a byte, and no word of more than this many is looked at.
        const BYTES_A_TOKEN: usize = 64;
        let prefix = match kind {
            TextKind::Query => &self.config.query_prefix,
            TextKind::Passage => &self.config.passage_prefix,
        };
        let [first, last] = self.marks;
        let room = self.config.max_seq_length - 2;
        // What lies far behind the cut is not even read: a query may be of any length.
        let text = &text[..text.floor_char_boundary(self.config.max_seq_length * BYTES_A_TOKEN)];
        let inner = self.tokenizer.encode_text(&format!("{prefix}{text}"));
        let inner = &inner[..room.min(inner.len())];
        [&[first], inner, &[last]].concat()
    }

    /// Vectors of rows of ids.
    fn pass(&self, rows: &[&[u32]]) -> Vec<Vec<f32>> {
        let width = rows.iter().map(|row| row.len()).max().unwrap_or_default();
        let lengths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        let ids = padded(rows, width, &self.network.device());
        let (states, is_token) = self.network.forward(ids, &lengths);
        let hidden = self.dim();
        let vectors = match self.config.pooling {
            Pooling::Mean => (states * is_token.clone()).sum_dim(1) / is_token.sum_dim(1),
            Pooling::Cls => states.narrow(1, 0, 1),
        };
        let vectors = vectors.reshape([rows.len(), hidden]);
        let vectors = if self.config.normalize {
            let norm = vectors.clone().powf_scalar(2.0).sum_dim(1).sqrt().clamp_min(1e-12);
            vectors / norm
        } else {
            vectors
        };
        let flat: Vec<f32> = vectors.into_data().convert::<f32>().try_into_vec().expect("converted to f32");
        flat.chunks_exact(hidden).map(<[f32]>::to_vec).collect()
    }
}
