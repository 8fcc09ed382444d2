//! Text to ids and back, as a rollout sees a tokenizer.

/// A tokenizer. Any tokenizer will do: ids need not fall on character boundaries.
pub trait Codec: Sync {
    /// Ids of a text that the environment adds. The text is untrusted: special tokens spelled out in it are encoded as
    /// plain characters, and none (such as a beginning-of-text id) is added.
    fn encode(&self, text: &str) -> Vec<u32>;

    /// Text of ids that the model drew, special tokens included; invalid bytes become U+FFFD. Defined for every id.
    fn decode(&self, ids: &[u32]) -> String;
}

/// The text of ids that arrive one at a time, equal at every step to `decode` of all of them.
///
/// A token may end inside a character: what it adds is then provisional (U+FFFD) and a later token replaces it. Only the
/// last few ids are decoded again, so the cost of a token does not grow with the text, whatever bytes arrive.
#[derive(Debug, Clone, Default)]
pub struct TurnText {
    text: String,
    /// For each token, the byte at which its text ends. A character spelled by several tokens belongs to the last.
    ends: Vec<usize>,
    window: Vec<u32>,
    /// `decode(window)`: the end of `text`, save for a character that the window's first id may cut.
    tail: String,
}

/// Ids of context for the newest one. Four would do for bytes of UTF-8 (a character has at most four); tokenizers that
/// join words or runs of bytes when they decode look back a little further.
const CONTEXT: usize = 8;

impl TurnText {
    /// Appends a token's text and returns what is new: everything behind the last byte that stayed as it was.
    pub fn push(&mut self, id: u32, codec: &dyn Codec) -> &str {
        if self.window.len() == 2 * CONTEXT {
            self.window.drain(..CONTEXT);
            self.tail = codec.decode(&self.window);
        }
        self.window.push(id);
        let tail = codec.decode(&self.window);
        let same = common_prefix(&self.tail, &tail);
        let kept = self.text.len().saturating_sub(self.tail.len() - same);
        let kept = self.text.floor_char_boundary(kept);
        self.text.truncate(kept);
        for end in self.ends.iter_mut().rev().take_while(|end| **end > kept) {
            *end = kept;
        }
        self.text.push_str(&tail[same..]);
        self.tail = tail;
        self.ends.push(self.text.len());
        &self.text[kept..]
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Tokens pushed so far.
    pub fn tokens(&self) -> usize {
        self.ends.len()
    }

    /// The token in which the byte at `offset` lies; the number of tokens for an offset behind the text.
    pub fn token_at(&self, offset: usize) -> usize {
        self.ends.partition_point(|&end| end <= offset)
    }

    /// The text of the first `tokens` tokens.
    pub fn text_of(&self, tokens: usize) -> &str {
        &self.text[..tokens.checked_sub(1).map_or(0, |last| self.ends[last])]
    }
}

/// Bytes that two texts have in common at their start, in whole characters.
fn common_prefix(a: &str, b: &str) -> usize {
    a.chars().zip(b.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// One id is one byte; counts the ids that it decodes.
    #[derive(Default)]
    struct Bytes {
        decoded: AtomicUsize,
    }

    impl Codec for Bytes {
        fn encode(&self, text: &str) -> Vec<u32> {
            text.bytes().map(u32::from).collect()
        }

        fn decode(&self, ids: &[u32]) -> String {
            self.decoded.fetch_add(ids.len(), Ordering::Relaxed);
            let bytes: Vec<u8> = ids.iter().map(|&id| id as u8).collect();
            String::from_utf8_lossy(&bytes).into_owned()
        }
    }

    fn grow(ids: impl IntoIterator<Item = u32>, codec: &Bytes) -> TurnText {
        let mut text = TurnText::default();
        for id in ids {
            text.push(id, codec);
        }
        text
    }

    #[test]
    fn a_character_belongs_to_the_token_that_completes_it() {
        let codec = Bytes::default();
        let text = grow(codec.encode("é<日"), &codec);
        let tokens: Vec<_> = (0..6).map(|at| text.token_at(at)).collect();
        assert_eq!(tokens, [1, 1, 2, 5, 5, 5]);
        assert_eq!([1, 2, 3, 5, 6].map(|tokens| text.text_of(tokens)), ["", "é", "é<", "é<", "é<日"]);
        assert_eq!(text.text_of(0), "");
    }

    #[test]
    fn the_cost_of_a_token_is_bounded() {
        for byte in [b'a', 0x80, 0xe6, 0xff] {
            let codec = Bytes::default();
            let text = grow(std::iter::repeat_n(u32::from(byte), 10_000), &codec);
            assert_eq!(text.as_str().chars().count(), 10_000, "bytes {byte:#x} do not stall");
            let decoded = codec.decoded.into_inner();
            assert!(decoded <= 10_000 * 2 * (CONTEXT + 1), "{decoded}");
        }
    }
}
