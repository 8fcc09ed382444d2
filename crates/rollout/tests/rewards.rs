//! The recorded values of the official rewards, and the scoring cases.

#[path = "../../../tests/fixtures/recorded.rs"]
#[allow(dead_code, unreachable_pub)]
mod recorded;

use recorded::{cases, golden, number};
use rex_rollout::rewards::official::{self, Examples, Tiers};
use rex_rollout::rewards::{self, FormatScore, normalize};
use rex_rollout::{Author, Scores, Segment};
use serde_json::Value;

#[test]
fn normalization_and_matches() {
    for case in golden("normalize_em.json") {
        let (name, input, expected) = (&case["name"], &case["input"], &case["expected"]);
        let prediction = text(&input["prediction"]);
        let golds = texts(&input["golds"]);
        assert_eq!(normalize(prediction), expected["normalized_prediction"], "{name}");
        let normalized: Vec<_> = golds.iter().map(|gold| normalize(gold)).collect();
        assert_eq!(normalized, texts(&expected["normalized_golds"]), "{name}");
        let (em, subem) = (expected["em"] == 1, expected["subem"] == 1);
        assert_eq!(official::exact_match(prediction, &golds), em, "{name}");
        assert_eq!(official::sub_exact_match(prediction, &golds), subem, "{name}");

        // Ours are the official ones over the golds of which something is left.
        let kept: Vec<_> = golds.iter().filter(|gold| !normalize(gold).is_empty()).collect();
        assert_eq!(
            rewards::exact_match(prediction, &golds),
            official::exact_match(prediction, &kept),
            "{name}"
        );
        let official = official::sub_exact_match(prediction, &kept);
        assert_eq!(rewards::sub_exact_match(prediction, &golds), official, "{name}");
    }
}

#[test]
fn answers_and_information_of_a_text() {
    for case in golden("extract_answer.json") {
        let (name, expected) = (&case["name"], &case["expected"]);
        let transcript = text(&case["input"]["text"]);
        let golds = texts(&case["input"]["golds"]);
        let solution = |examples| official::extract_solution(transcript, examples);
        assert_eq!(solution(Examples::One), expected["extract_solution_default"].as_str(), "{name}");
        assert_eq!(solution(Examples::None), expected["extract_solution_allow_first"].as_str(), "{name}");
        assert_eq!(
            official::information_blocks(transcript),
            texts(&expected["information_blocks"]),
            "{name}"
        );
        assert_eq!(
            official::is_retrieval_correct(transcript, &golds),
            expected["is_retrieval_correct"],
            "{name}"
        );
        assert_eq!(official::is_valid_sequence(transcript), expected["is_valid_sequence"], "{name}");
    }
}

#[test]
fn format_scores_and_rewards_of_a_text() {
    for case in golden("format_rating.json") {
        let (name, input, expected) = (&case["name"], &case["input"], &case["expected"]);
        let transcript = text(&input["text"]);
        let golds = texts(&input["golds"]);
        let near = |what: &str, ours: f64, theirs: &Value| {
            assert!((ours - number(theirs)).abs() <= 1e-12, "{name}, {what}: {ours} is not {theirs}");
        };

        let format = official::format_rating(transcript);
        assert_eq!(format.is_none(), expected["detail"].is_null(), "{name}");
        assert_eq!(format.is_none(), expected["custom_default_detail_is_none"], "{name}");
        near("format_score", format.map_or(0.0, |format| format.total), &expected["format_score"]);
        if let Some(FormatScore { levels, factors, total }) = format {
            let detail = &expected["detail"];
            for k in 0..4 {
                near("level", levels[k], &detail[format!("level_{k}")]);
                near("factor", factors[k], &detail[format!("factor_{k}")]);
            }
            near("total", total, &detail["format_score"]);
        }

        assert_eq!(number(&input["score"]), 1.0, "{name}");
        let tiers = Tiers {
            structure_format_score: number(&input["structure_format_score"]),
            final_format_score: number(&input["final_format_score"]),
            retrieval_score: number(&input["retrieval_score"]),
        };
        let weight = tiers.structure_format_score;
        let reward = |weight, examples| official::reward(transcript, &golds, weight, examples);
        let tiered = |examples| official::tiered_reward(transcript, &golds, tiers, examples);
        near("custom_default", reward(weight, Examples::One), &expected["custom_default"]);
        near("custom_allow_first", reward(weight, Examples::None), &expected["custom_allow_first"]);
        near("custom_zero_format_weight", reward(0.0, Examples::One), &expected["custom_zero_format_weight"]);
        near("em_only", reward(0.0, Examples::One), &expected["em_only"]);
        near("em_default", tiered(Examples::One), &expected["em_default"]);
        near("em_allow_first", tiered(Examples::None), &expected["em_allow_first"]);
        let answer = official::extract_solution(transcript, Examples::None);
        let subem = answer.is_some_and(|answer| official::sub_exact_match(answer, &golds));
        near("subem_custom", f64::from(subem), &expected["subem_custom"]);
    }
}

#[test]
fn answers_by_author() {
    for case in cases("scoring.json") {
        let (name, expected) = (&case["name"], &case["expected"]);
        let golds = texts(&case["golds"]);
        let segments: Vec<_> = case["segments"].as_array().unwrap().iter().map(segment).collect();
        let scores = Scores::new(&segments, &golds);
        assert_eq!(scores.answer.as_deref(), expected["answer"].as_str(), "{name}");
        assert_eq!(scores.em, number(&expected["em"]), "{name}");
        let folds = case["note"].as_str().is_some_and(|note| note.ends_with("folded metric gives 1"));
        if folds {
            assert_eq!(scores.folded_em, 1.0, "{name}");
        }
        if scores.answer.is_none() {
            assert_eq!(scores.reward(0.2), 0.0, "{name}");
        }
    }
}

#[test]
fn the_reward_adds_the_weighted_format_score() {
    let segments = [
        (Author::Prompt, "Example: <answer> Oslo </answer>. Where is the Louvre?"),
        (Author::Model, "<think> a </think><search> louvre </search> cut away"),
        (Author::Information, "\n\n<information>It is in Paris.</information>\n\n"),
        (Author::Model, "<think> b </think><answer> Paris </answer>"),
    ]
    .map(|(author, text)| Segment { author, text: text.into() });
    let scores = Scores::new(&segments, &["Paris"]);
    assert_eq!((scores.em, scores.sub_em, scores.f1, scores.folded_em), (1.0, 1.0, 1.0, 1.0));
    // A perfect form, as recorded in format_rating.json, well_formed_one_search.
    assert!((scores.format - 1.211789973187968).abs() < 1e-12, "{}", scores.format);
    assert!((scores.reward(0.2) - 1.2423579946375936).abs() < 1e-12);
    assert_eq!(scores.reward(0.0), 1.0);
}

fn segment(value: &Value) -> Segment {
    let author = text(&value["author"]).to_lowercase();
    Segment { author: serde_json::from_value(author.into()).unwrap(), text: text(&value["text"]).into() }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}"))
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(values) => values.iter().map(text).collect(),
        value => vec![text(value)],
    }
}
