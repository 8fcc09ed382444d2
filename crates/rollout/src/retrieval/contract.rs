//! `/retrieve`, the contract of Search-R1's retrieval servers, as data; `rex serve` answers it and the remote retriever asks it.
//!
//! ```text
//! POST {"queries": [str], "topk": int|null, "return_scores": bool = false}
//! 200  {"result": [[{"document": {"id", "contents"}, "score": f}, …], …]}      return_scores = true
//! 200  {"result": [[{"id", "contents"}, …], …]}                                return_scores = false
//! ```
//!
//! Always as many lists as queries.

use super::{Document, Passage};
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is asked. Unknown fields are let pass, as Search-R1's server does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    #[serde(deserialize_with = "texts")]
    pub queries: Vec<String>,
    /// Passages for each query; the server's own number when absent.
    #[serde(default)]
    pub topk: Option<usize>,
    #[serde(default)]
    pub return_scores: bool,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    pub result: Vec<Vec<Entry>>,
}

/// A passage, in one of the two shapes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Entry {
    Scored { document: Found, score: f32 },
    Bare(Found),
}

/// A document as servers write it: some number their ids, Search-R1's own BM25 server leaves them out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    #[serde(default, deserialize_with = "id")]
    pub id: String,
    pub contents: String,
}

impl Response {
    pub fn new(result: Vec<Vec<Passage>>, return_scores: bool) -> Self {
        let entry = |Passage { id, contents, score }: Passage| {
            let document = Found { id, contents };
            if return_scores { Entry::Scored { document, score } } else { Entry::Bare(document) }
        };
        Self { result: result.into_iter().map(|list| list.into_iter().map(entry).collect()).collect() }
    }
}

impl Entry {
    /// The passage; its score is `None` where the server gave none.
    pub fn into_parts(self) -> (Document, Option<f32>) {
        let (Found { id, contents }, score) = match self {
            Entry::Scored { document, score } => (document, Some(score)),
            Entry::Bare(document) => (document, None),
        };
        (Document { id, contents }, score)
    }
}

/// A list of strings. Half a surrogate pair, as Python writes what a model cut in two, is a replacement character.
fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Texts;
    impl<'de> Visitor<'de> for Texts {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of strings")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut texts = Vec::new();
            while let Some(Text(text)) = list.next_element()? {
                texts.push(text);
            }
            Ok(texts)
        }
    }
    deserializer.deserialize_seq(Texts)
}

struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lossy;
        impl<'de> Visitor<'de> for Lossy {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_string()))
            }

            fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(text).into_owned()))
            }

            // A list of numbers would pass for bytes.
            fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<Text, A::Error> {
                Err(A::Error::invalid_type(Unexpected::Seq, &self))
            }
        }
        // As bytes: JSON strings that are no Unicode are errors otherwise.
        deserializer.deserialize_bytes(Lossy)
    }
}

/// A string, or the number that some corpora have.
fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Text(String),
        Number(i64),
        Nothing(()),
    }
    Ok(match Id::deserialize(deserializer)? {
        Id::Text(id) => id,
        Id::Number(id) => id.to_string(),
        Id::Nothing(()) => String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let check = |json: &str, expected: Result<(&[&str], Option<usize>, bool), &str>| match (
            serde_json::from_str::<Request>(json),
            expected,
        ) {
            (Ok(request), Ok((queries, topk, return_scores))) => {
                assert_eq!(request.queries, queries, "{json}");
                assert_eq!((request.topk, request.return_scores), (topk, return_scores), "{json}");
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{json}: {error}"),
            (found, expected) => panic!("{json}: {found:?}, not {expected:?}"),
        };
        check(r#"{"queries": []}"#, Ok((&[], None, false)));
        check(r#"{"queries": ["a", ""], "topk": null}"#, Ok((&["a", ""], None, false)));
        check(r#"{"queries": ["a"], "topk": 5, "return_scores": true, "x": 1}"#, Ok((&["a"], Some(5), true)));
        check(
            r#"{"queries": ["half \ud83c", "\u0000nul"]}"#,
            Ok((&["half \u{fffd}\u{fffd}\u{fffd}", "\0nul"], None, false)),
        );
        check(r#"{}"#, Err("missing field `queries`"));
        check(r#"{"queries": "a"}"#, Err("expected a list of strings"));
        check(r#"{"queries": [1]}"#, Err("invalid type: integer `1`, expected a string"));
        check(r#"{"queries": [[104, 105]]}"#, Err("expected a string"));
        check(r#"{"queries": ["a"], "topk": -1}"#, Err("invalid value: integer `-1`"));
        check(r#"{"queries": ["a"], "topk": "3"}"#, Err("expected usize"));
        check(r#"{"queries": ["a"], "return_scores": 1}"#, Err("expected a boolean"));
    }

    #[test]
    fn both_shapes_are_written_and_read() {
        let passage = Passage { id: "7".to_string(), contents: "\"Ur\"\nold".to_string(), score: 1.5 };
        for (return_scores, json, score) in [
            (
                true,
                r#"{"result":[[{"document":{"id":"7","contents":"\"Ur\"\nold"},"score":1.5}],[]]}"#,
                Some(1.5),
            ),
            (false, r#"{"result":[[{"id":"7","contents":"\"Ur\"\nold"}],[]]}"#, None),
        ] {
            let response = Response::new(vec![vec![passage.clone()], vec![]], return_scores);
            assert_eq!(serde_json::to_string(&response).unwrap(), json);
            let mut read: Response = serde_json::from_str(json).unwrap();
            let (document, found) = read.result[0].remove(0).into_parts();
            assert_eq!((document.id.as_str(), found), ("7", score));
        }
    }

    #[test]
    fn ids_of_other_servers() {
        let check = |json: &str, expected: &str| {
            let entry: Entry = serde_json::from_str(json).unwrap();
            assert_eq!(entry.into_parts().0.id, expected, "{json}");
        };
        check(r#"{"id": 12, "contents": "x"}"#, "12");
        check(r#"{"document": {"title": "t", "text": "x", "contents": "x"}, "score": 1}"#, "");
        check(r#"{"id": null, "contents": "x"}"#, "");
    }
}
