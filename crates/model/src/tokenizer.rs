//! Text to token ids and back.

use tokenizers::Tokenizer as Inner;

/// A tokenizer read from a `tokenizer.json`.
///
/// No id is ever added that the text does not spell: no begin-of-text, no padding, no truncation, whatever the file says.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    /// Finds special tokens in the text.
    parsing: Inner,
    /// Takes special tokens in the text for text.
    plain: Inner,
    ids: usize,
}

/// Why a tokenizer is refused.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("not a tokenizer.json: {0}")]
    Invalid(String),
    #[error("its vocabulary is empty")]
    Empty,
    #[error("it cannot encode every text ({0}); give its model an unknown token that is in the vocabulary")]
    Partial(String),
}

impl Tokenizer {
    /// Reads the contents of a `tokenizer.json`.
    ///
    /// # Errors
    /// On a damaged file and on a tokenizer that fails on words it does not know.
    pub fn from_bytes(tokenizer_json: &[u8]) -> Result<Self, TokenizerError> {
        let invalid = |error: tokenizers::Error| TokenizerError::Invalid(error.to_string());
        let mut parsing = Inner::from_bytes(tokenizer_json).map_err(invalid)?;
        parsing.with_truncation(None).map_err(invalid)?.with_padding(None);
        let largest = parsing.get_vocab(true).into_values().max().ok_or(TokenizerError::Empty)?;
        let mut plain = parsing.clone();
        plain.set_encode_special_tokens(true);
        // Only a word outside the vocabulary can make encoding fail; this noncharacter is in none.
        plain.encode("\u{10FFFF}", false).map_err(|error| TokenizerError::Partial(error.to_string()))?;
        Ok(Self { parsing, plain, ids: largest as usize + 1 })
    }

    /// The ids of a prompt, in which special tokens such as `<|im_end|>` count as such.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        encode(&self.parsing, text)
    }

    /// The ids of untrusted text: what looks like a special token is encoded letter by letter.
    pub fn encode_text(&self, text: &str) -> Vec<u32> {
        encode(&self.plain, text)
    }

    /// The text of ids, special tokens included; ids that do not exist are left out, and bytes that are not UTF-8 become
    /// U+FFFD.
    pub fn decode(&self, ids: &[u32]) -> String {
        self.parsing.decode(ids, false).expect("decoders only join and replace text")
    }

    /// The id of a token by its exact text, special or not.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.parsing.token_to_id(token)
    }

    /// One more than the largest id: the rows that an embedding must have.
    pub fn vocab_size(&self) -> usize {
        self.ids
    }

    /// The contents of a `tokenizer.json` that reads back as this tokenizer.
    pub fn to_json(&self) -> String {
        self.parsing.to_string(true).expect("a tokenizer that was read can be written")
    }
}

fn encode(tokenizer: &Inner, text: &str) -> Vec<u32> {
    let encoding = tokenizer.encode_fast(text, false).expect("checked when read: every text can be encoded");
    encoding.get_ids().to_vec()
}
