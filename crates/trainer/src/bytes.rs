//! A codec for unit tests.

use rex_rollout::Codec;

/// One id is one byte.
pub(crate) struct Bytes;

impl Codec for Bytes {
    fn encode(&self, text: &str) -> Vec<u32> {
        text.bytes().map(u32::from).collect()
    }

    fn decode(&self, ids: &[u32]) -> String {
        String::from_utf8_lossy(&ids.iter().map(|&id| id as u8).collect::<Vec<_>>()).into_owned()
    }
}
