//! Corpus coverage on a corpus small enough to count by hand.

use rex_rollout::retrieval::{Bm25Index, Document};
use rex_trainer::coverage::{Found, coverage};
use rex_trainer::data::Question;
use serde_json::{Value, json};

fn question(text: &str, golds: &[&str], metadata: Value) -> Question {
    Question {
        id: String::new(),
        question: text.to_string(),
        golden_answers: golds.iter().map(|gold| gold.to_string()).collect(),
        data_source: "test".to_string(),
        metadata,
        prompt: None,
    }
}

#[test]
fn counted_by_hand() {
    let passages = [
        ("1", "\"Ur\"\nUr lies in the south; its king was Shulgi of Ur."),
        ("2", "\"The \"New\" Gate\"\nThe gate of Babylon was blue."),
        ("3", "\"Blue\"\nBlueberry pie is not blue-green."),
        ("4", "\"Pie\"\nKing cake, king prawn, king pie, king of kings."),
    ];
    let documents = passages.map(|(id, contents)| Document { id: id.into(), contents: contents.into() });
    let index = Bm25Index::in_memory(documents).unwrap();
    let questions = vec![
        // Answered by the best passage; one of two supporting passages shares a word with the question.
        question("Ur's king?", &["the Shulgi"], json!({"supporting_ids": ["1", "2"]})),
        // Whole words only, once the article and the punctuation are gone.
        question("berry", &["berry", "bluegreen!"], json!({"supporting_titles": ["Blue"]})),
        question("blue?", &["no"], json!({"supporting_titles": ["The \"New\" Gate", "Blue"]})),
        question("zebra", &["Shulgi of Uruk", "..."], json!({"supporting_ids": ["1", "99"]})),
        question("zebra", &["yes", "Pie"], Value::Null),
    ];
    let mut told = Vec::new();
    let mut progress = |phase: &str, done: usize, total: usize| told.push((phase.to_string(), done, total));
    let covered = coverage(&index, &[("bm25", &index)], &[questions, vec![]], &mut progress).unwrap();

    assert_eq!((covered[0].questions, covered[0].yes_no), (5, 1));
    assert_eq!(covered[0].answer_in_corpus, 3, "Shulgi, bluegreen, Pie");
    assert_eq!(covered[0].gold_in_corpus, 3, "the fourth misses a passage, the fifth names none");
    let expected = Found { answer: [1, 1], recall: [(0.5 + 0.0 + 1.0) / 3.0; 2], any: [2, 2], all: [1, 1] };
    assert_eq!(covered[0].found["bm25"], expected);
    assert_eq!((covered[1].questions, &covered[1].found["bm25"]), (0, &Found::default()));
    assert_eq!(told, [("reading the corpus".to_string(), 4, 4), ("asking".to_string(), 5, 5)]);
}
