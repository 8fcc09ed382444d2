//! Text to terms, the same for passages and queries.

use tantivy::tokenizer::{
    AsciiFoldingFilter, Language, LowerCaser, RemoveLongFilter, SimpleTokenStream, SimpleTokenizer, Stemmer,
    StopWordFilter, TextAnalyzer, Tokenizer,
};
use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// Recorded in every index. Change it with the analyzer: an index of other terms must not be searched with these.
pub(super) const NAME: &str = "rex_english_1";

/// Longer tokens (URLs, base64, runs of one letter) are nobody's search term. In bytes of UTF-8.
const MAX_TOKEN_BYTES: usize = 100;

/// A query is analysed up to this many bytes, and
const MAX_QUERY_BYTES: usize = 1 << 16;
/// up to this many distinct terms: what a model can mean fits, and what it can babble is answered in bounded time.
const MAX_QUERY_TERMS: usize = 256;

/// Words without accents, lower-cased, without Lucene's 33 English stop words, stemmed by Snowball's English stemmer.
pub(super) fn analyzer() -> TextAnalyzer {
    let stop_words = StopWordFilter::new(Language::English).expect("tantivy has English stop words");
    TextAnalyzer::builder(Words::default())
        .filter(RemoveLongFilter::limit(MAX_TOKEN_BYTES))
        .filter(AsciiFoldingFilter)
        .filter(LowerCaser)
        .filter(stop_words)
        .filter(Stemmer::new(Language::English))
        .build()
}

/// The distinct terms of a query with their number of occurrences, in order of first occurrence.
pub(super) fn query_terms(analyzer: &TextAnalyzer, query: &str) -> Vec<(String, u32)> {
    let query = &query[..query.floor_char_boundary(MAX_QUERY_BYTES)];
    let mut terms: Vec<(String, u32)> = Vec::new();
    let mut analyzer = analyzer.clone();
    let mut tokens = analyzer.token_stream(query);
    while tokens.advance() {
        let text = &tokens.token().text;
        match terms.iter().position(|(term, _)| term == text) {
            Some(index) => terms[index].1 += 1,
            None if terms.len() < MAX_QUERY_TERMS => terms.push((text.clone(), 1)),
            None => {}
        }
    }
    terms
}

/// Runs of letters and digits, compatibility-decomposed (NFKD) without combining marks: `é` is `e` however it was
/// typed, and `İ` is `I`.
#[derive(Clone, Default)]
struct Words {
    folded: String,
    words: SimpleTokenizer,
}

impl Tokenizer for Words {
    type TokenStream<'a> = SimpleTokenStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> SimpleTokenStream<'a> {
        if text.is_ascii() {
            return self.words.token_stream(text);
        }
        self.folded.clear();
        self.folded.extend(text.nfkd().filter(|c| !is_combining_mark(*c)));
        self.words.token_stream(&self.folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_terms() {
        let check = |text: &str, expected: &[&str]| {
            let terms = query_terms(&analyzer(), text);
            assert_eq!(terms.iter().map(|(term, _)| term.as_str()).collect::<Vec<_>>(), expected, "{text:?}");
        };
        check("The Running of the Bulls", &["run", "bull"]);
        check("naïve CAFÉ cafe\u{301} Straße Łódź", &["naiv", "cafe", "strass", "lodz"]);
        check("İstanbul ΑΘΗΝΑ Αθήνα", &["istanbul", "αθηνα"]);
        check(
            "field:value AND (a OR \"b c\")^2 -title:[x TO z]~",
            &["field", "valu", "b", "c", "2", "titl", "x", "z"],
        );
        check("AT&T 1,234.56 ﬁnance", &["t", "1", "234", "56", "financ"]);
        check("", &[]);
        check("the of to \t\n !!! 🏛️", &[]);
        check("nul\0nul", &["nul"]);
        check(&"a".repeat(MAX_TOKEN_BYTES), &[]);
    }

    #[test]
    fn long_queries_are_capped() {
        let terms = |query: &str| query_terms(&analyzer(), query);
        assert_eq!(terms(&"word ".repeat(3)), [("word".to_string(), 3)]);
        assert_eq!(terms(&"word ".repeat(10_000_000))[0].1, (MAX_QUERY_BYTES / "word ".len()) as u32);
        let distinct: String = (0..10_000).map(|n| format!("{n} ")).collect();
        assert_eq!(terms(&distinct).len(), MAX_QUERY_TERMS);
        assert!(terms(&"é".repeat(MAX_QUERY_BYTES)).is_empty());
    }
}
