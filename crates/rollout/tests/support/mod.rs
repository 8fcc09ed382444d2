//! Small tokenizers, and a driver that plays scripted text into an episode.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use rex_rollout::{Author, Codec, Episode, Need, Passage, Protocol};

/// Ends a text in every scripted run; no character has this id.
pub const END: u32 = 0x11_0000;

/// One character is one id.
pub struct Chars;

impl Codec for Chars {
    fn encode(&self, text: &str) -> Vec<u32> {
        text.chars().map(u32::from).collect()
    }

    fn decode(&self, ids: &[u32]) -> String {
        ids.iter().map(|&id| char::from_u32(id).unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }
}

/// Tokens of any bytes, such as a byte-level BPE has; encodes with the longest token that fits, single bytes if none.
pub struct Pieces(pub Vec<Vec<u8>>);

impl Codec for Pieces {
    fn encode(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            let fits = |piece: &&Vec<u8>| !piece.is_empty() && rest.starts_with(piece);
            let longest = self.0.iter().filter(fits).max_by_key(|piece| piece.len());
            let id = match longest {
                Some(piece) => self.0.iter().position(|other| other == piece).unwrap(),
                None => self.0.len() + usize::from(rest[0]),
            };
            ids.push(id as u32);
            rest = &rest[longest.map_or(1, Vec::len)..];
        }
        ids
    }

    fn decode(&self, ids: &[u32]) -> String {
        let bytes = ids.iter().flat_map(|&id| match self.0.get(id as usize) {
            Some(piece) => piece.clone(),
            None => vec![(id as usize - self.0.len()) as u8],
        });
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }
}

pub fn protocol() -> Protocol {
    Protocol {
        max_turns: 3,
        max_response_tokens: 100_000,
        max_obs_tokens: 100_000,
        max_total_tokens: 1_000_000,
        end_ids: vec![END],
        ..Protocol::default()
    }
}

pub fn passage(contents: &str) -> Passage {
    Passage { id: String::new(), contents: contents.into(), score: 1.0 }
}

/// Draws the characters of `text` until the turn is over; where the text ends first, the end-of-text id.
pub fn write(episode: &mut Episode, text: &str, protocol: &Protocol) {
    let turns = episode.turns().len();
    for id in Chars.encode(text).into_iter().chain([END]) {
        if episode.turns().len() > turns || episode.need() != Need::Token {
            return;
        }
        episode.push_token(id, -1.0, protocol, &Chars);
    }
}

/// The text of everything behind the prompt, without end-of-text ids.
pub fn response(episode: &Episode) -> String {
    let transcript = episode.transcript();
    let shown = transcript.ids().iter().zip(transcript.authors());
    let shown = shown.filter(|(id, author)| **author != Author::Prompt && **id != END);
    Chars.decode(&shown.map(|(id, _)| *id).collect::<Vec<_>>())
}
