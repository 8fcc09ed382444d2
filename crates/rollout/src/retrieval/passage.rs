//! What is searched, what a search returns, and who can be asked.

use super::RetrievalError;
use serde::{Deserialize, Serialize};

/// One entry of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    pub id: String,
    /// `"Title"\ntext`, the format of FlashRAG and Search-R1.
    pub contents: String,
}

/// A document with the score that a retriever gave it (higher is better).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    pub id: String,
    /// `"Title"\ntext`, the format of FlashRAG and Search-R1.
    pub contents: String,
    pub score: f32,
}

impl Passage {
    /// The first line of the contents, quotes included, as Search-R1 shows it.
    pub fn title(&self) -> &str {
        self.contents.split_once('\n').map_or(self.contents.as_str(), |(title, _)| title)
    }

    /// Everything behind the first line; empty where there is only one.
    pub fn text(&self) -> &str {
        self.contents.split_once('\n').map_or("", |(_, text)| text)
    }
}

/// A search engine. The queries are text from a model: any string is a query, and none is an error.
pub trait Retriever: Send + Sync {
    /// At most `topk` passages for each query, best first; always as many lists as queries.
    ///
    /// # Errors
    /// When the engine itself fails (a damaged index, a server that does not answer), never because of a query.
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError>;
}

impl<R: Retriever + ?Sized> Retriever for Box<R> {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        (**self).retrieve(queries, topk)
    }
}

impl<R: Retriever + ?Sized> Retriever for std::sync::Arc<R> {
    fn retrieve(&self, queries: &[&str], topk: usize) -> Result<Vec<Vec<Passage>>, RetrievalError> {
        (**self).retrieve(queries, topk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_the_first_line() {
        let check = |contents: &str, title: &str, text: &str| {
            let passage = Passage { id: String::new(), contents: contents.into(), score: 0.0 };
            assert_eq!((passage.title(), passage.text()), (title, text), "{contents:?}");
        };
        check("\"Ur\"\nA city.\nOld.", "\"Ur\"", "A city.\nOld.");
        check("no line break", "no line break", "");
        check("", "", "");
        check("\ntext", "", "text");
    }
}
