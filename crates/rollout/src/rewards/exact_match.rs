//! Exact match and its two softer forms. A gold answer of which normalisation leaves nothing never matches.

use super::normalize::{fold, normalize};

/// Whether some gold answer equals the prediction after [`normalize`].
pub fn exact_match(prediction: &str, golds: &[impl AsRef<str>]) -> bool {
    any_gold(normalize, prediction, golds, |prediction, gold| prediction == gold)
}

/// Whether some gold answer lies inside the prediction after [`normalize`], word boundaries or not.
pub fn sub_exact_match(prediction: &str, golds: &[impl AsRef<str>]) -> bool {
    any_gold(normalize, prediction, golds, |prediction, gold| prediction.contains(gold))
}

/// Whether some gold answer equals the prediction after [`fold`].
pub fn folded_exact_match(prediction: &str, golds: &[impl AsRef<str>]) -> bool {
    any_gold(fold, prediction, golds, |prediction, gold| prediction == gold)
}

fn any_gold(
    form: fn(&str) -> String,
    prediction: &str,
    golds: &[impl AsRef<str>],
    matches: fn(&str, &str) -> bool,
) -> bool {
    let prediction = form(prediction);
    golds.iter().map(|gold| form(gold.as_ref())).any(|gold| !gold.is_empty() && matches(&prediction, &gold))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_gold_never_matches() {
        for (prediction, gold) in [("", ""), ("the", "a"), ("?!", "..."), ("Paris", ""), ("Paris", "the")] {
            assert!(!exact_match(prediction, &[gold]), "{prediction:?} {gold:?}");
            assert!(!sub_exact_match(prediction, &[gold]), "{prediction:?} {gold:?}");
            assert!(!folded_exact_match(prediction, &[gold]), "{prediction:?} {gold:?}");
        }
        assert!(exact_match("The USA.", &["", "U.S.A."]));
    }
}
