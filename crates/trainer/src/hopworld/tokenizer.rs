//! The tokenizer of Hopworld: a word a token, in the format of Hugging Face's `tokenizers`.
//!
//! White space separates words and is not kept; decoding puts one space between words and none before `.`, `,` and `?`,
//! so what is decoded encodes to the same ids again.

use super::model::PROMPT;
use super::words::{FIRST_NAMES, LAST_NAMES, Relation};
use rex_rollout::NOTICE;
use serde_json::{Value, json};

/// Exploration prompts in Hopworld's words.
pub const EXPLORATION: &str = include_str!("../../../../assets/hopworld/exploration.txt");

/// Stands for every word that is not one of Hopworld's.
pub const UNKNOWN: &str = "<unk>";
/// Ends a text.
pub const END: &str = "<end>";

/// The protocol's tags. Not `special`: the environment's own texts, in which special tokens are taken for letters,
/// hold them, too.
const TAGS: [&str; 8] = [
    "<think>",
    "</think>",
    "<search>",
    "</search>",
    "<answer>",
    "</answer>",
    "<information>",
    "</information>",
];

/// Every text around names, relations and exploration prompts: passage, question, observation and thoughts.
const TEXTS: &str =
    "Who is the of ? has , and . Doc 1 2 3 4 5 6 7 8 9 ( Title : \" \") I need the of . That is the answer .";

/// The contents of `tokenizer.json`.
pub fn tokenizer_json() -> String {
    let words = words();
    let vocabulary: serde_json::Map<String, Value> =
        words.iter().enumerate().map(|(id, word)| (word.clone(), id.into())).collect();
    let added = |(id, content): (usize, &&str)| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": !TAGS.contains(content),
        })
    };
    let markers: Vec<&str> = [UNKNOWN, END].into_iter().chain(TAGS).collect();
    let tokenizer = json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": markers.iter().enumerate().map(added).collect::<Vec<_>>(),
        "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": null,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": UNKNOWN},
    });
    format!("{tokenizer:#}\n")
}

/// The vocabulary in the order of its ids: markers, names, and the words of every text in order of appearance.
fn words() -> Vec<String> {
    let markers = [UNKNOWN, END].into_iter().chain(TAGS).chain(FIRST_NAMES).chain(LAST_NAMES);
    let mut words: Vec<String> = markers.map(String::from).collect();
    let relations = Relation::ALL.map(|relation| relation.to_string()).join(" ");
    let prompt = PROMPT.replace("{question}", "");
    let exploration = EXPLORATION.replace("<think>", "");
    for text in [relations.as_str(), TEXTS, &prompt, NOTICE, &exploration] {
        for word in split(text) {
            if !words.iter().any(|known| known == word) {
                words.push(word.to_string());
            }
        }
    }
    words
}

/// What the `Whitespace` pre-tokenizer does: runs of letters and digits, and runs of other characters.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let kind = |c: char| c.is_alphanumeric();
    text.split_whitespace().flat_map(move |chunk| {
        let mut rest = chunk;
        std::iter::from_fn(move || {
            let first = rest.chars().next()?;
            let end = rest.find(|c| kind(c) != kind(first)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            rest = behind;
            Some(word)
        })
    })
}
