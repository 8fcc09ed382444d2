//! The normalisation of SQuAD, as Python does it, and a folded one for answers that differ in typography only.

use crate::python::{is_space, is_word};
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

/// Lower case, the 32 ASCII punctuation characters deleted, the words a, an and the removed, white space collapsed.
///
/// Equal to the official `normalize_answer`, whose `\b` and `split` are Python's.
pub fn normalize(text: &str) -> String {
    let mut text = text.to_lowercase();
    text.retain(|c| !c.is_ascii_punctuation());
    let words = without_articles(&text);
    words.split(is_space).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// [`normalize`] after compatibility decomposition, without combining marks and punctuation of any script, case folded:
/// "Beyoncé" and "Beyonce", "1968–69" and "1968-69", "Straße" and "STRASSE" become equal.
pub fn fold(text: &str) -> String {
    let bare = text.nfkd().filter(|&c| {
        !is_combining_mark(c) && c.general_category_group() != GeneralCategoryGroup::Punctuation
    });
    // Upper case first: it spells out ß and joins the two forms of sigma.
    normalize(&bare.collect::<String>().to_uppercase())
}

/// Every maximal run of word characters that is an article becomes a space: `re.sub(r"\b(a|an|the)\b", " ", text)`.
fn without_articles(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, behind) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        kept.push_str(if matches!(word, "a" | "an" | "the") { " " } else { word });
        let (between, next) = behind.split_at(behind.find(is_word).unwrap_or(behind.len()));
        kept.push_str(between);
        rest = next;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folding_forgets_typography() {
        let check = |a: &str, b: &str| assert_eq!(fold(a), fold(b), "{a} and {b}");
        check("Beyoncé", "BEYONCE");
        check("Beyonce\u{301}", "Beyoncé");
        check("1968–69", "1968-69");
        check("Straße", "STRASSE");
        check("“Hamlet”", "Hamlet");
        check("ＡＢ１２", "ab12");
        check("ΟΔΟΣ", "οδοσ");
        check("ﬁn de siècle", "Fin de Siecle");
        assert_ne!(fold("Bern"), fold("Berne"));
    }
}
