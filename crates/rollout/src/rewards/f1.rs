//! Token F1 of SQuAD.

use super::normalize::normalize;
use std::collections::HashMap;

/// The best F1 over the gold answers: `2 · shared / (words of the prediction + words of the gold)`, words counted with
/// multiplicity after [`normalize`]; 0 without a shared word.
///
/// Source: Rajpurkar et al. 2016, section 6.1 (`evaluate-v1.1.py`).
pub fn f1(prediction: &str, golds: &[impl AsRef<str>]) -> f64 {
    let prediction = normalize(prediction);
    golds.iter().map(|gold| overlap(&prediction, &normalize(gold.as_ref()))).fold(0.0, f64::max)
}

fn overlap(prediction: &str, gold: &str) -> f64 {
    let words = |text: &str| text.split(' ').filter(|word| !word.is_empty()).count();
    let mut left: HashMap<&str, usize> = HashMap::new();
    for word in gold.split(' ').filter(|word| !word.is_empty()) {
        *left.entry(word).or_default() += 1;
    }
    let mut shared = 0;
    for word in prediction.split(' ') {
        if let Some(count) = left.get_mut(word).filter(|count| **count > 0) {
            *count -= 1;
            shared += 1;
        }
    }
    if shared == 0 { 0.0 } else { 2.0 * f64::from(shared) / (words(prediction) + words(gold)) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_shared_words() {
        let check = |prediction: &str, golds: &[&str], expected: f64| {
            assert!((f1(prediction, golds) - expected).abs() < 1e-12, "{prediction:?} {golds:?}");
        };
        check("Paris", &["Paris"], 1.0);
        check("the city of Paris", &["Paris"], 0.5); // 1 shared, 3 + 1 words
        check("New York York", &["York York City"], 2.0 / 3.0);
        check("Rome", &["Paris", "Rome, Italy"], 2.0 / 3.0);
        check("Rome", &["Paris"], 0.0);
        check("", &[""], 0.0);
        check("x", &[], 0.0);
    }
}
