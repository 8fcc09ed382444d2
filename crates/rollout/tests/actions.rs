//! The recorded results of one environment step: actions, observations and what a turn leads to.

#[path = "../../../tests/fixtures/recorded.rs"]
#[allow(dead_code, unreachable_pub)]
mod recorded;
mod support;

use recorded::golden;
use rex_rollout::observation::observation;
use rex_rollout::rewards::official;
use rex_rollout::{Action, Author, Codec, Episode, NOTICE, Need, Passage, ProbeOn, Protocol};
use serde_json::{Value, json};
use support::{Chars, passage, protocol, response, write};

#[test]
fn recorded_steps() {
    for case in golden("postprocess_actions.json") {
        match case["input"]["kind"].as_str() {
            Some("action") => check_action(&case),
            Some("passages") => check_passages(&case),
            Some("step") => check_step(&case),
            kind => panic!("{kind:?}"),
        }
    }
}

fn check_action(case: &Value) {
    let text = case["input"]["text"].as_str().unwrap();
    let found = Action::leftmost(text);
    let end = found.as_ref().map_or(text.len(), |(_, span)| span.end);
    let parts = |found: &Option<(Action, _)>| match found {
        Some((Action::Search(query), _)) => (json!("search"), query.clone()),
        Some((Action::Answer(answer), _)) => (json!("answer"), answer.clone()),
        None => (Value::Null, String::new()),
    };
    let (action, content) = parts(&found);
    let (truncated_action, truncated_content) = parts(&Action::leftmost(&text[..end]));
    let ours = json!({
        "action": action,
        "content": content,
        "matched": found.clone().map(|(_, span)| &text[span]),
        "truncated": text[..end],
        "truncated_action": truncated_action,
        "truncated_content": truncated_content,
    });
    assert_eq!(ours, case["expected"], "{}", case["name"]);

    // An episode reads while the text grows and sees the same, unless a search is closed around a closed answer.
    if case["name"] != "action_search_wraps_answer" {
        assert_eq!(Action::first_complete(text), found, "{}", case["name"]);
    }
}

fn check_passages(case: &Value) {
    let contents = case["input"]["contents"].as_array().unwrap();
    let passages: Vec<Passage> = contents.iter().map(|text| passage(text.as_str().unwrap())).collect();
    assert_eq!(observation(&passages), case["expected"]["observation"], "{}", case["name"]);
}

/// Each row is an episode that gets one turn; with `do_search` off it is the last, search-less one.
fn check_step(case: &Value) {
    let (name, input, expected) = (&case["name"], &case["input"], &case["expected"]);
    let rows = |key: &str| input[key].as_array().unwrap().iter();
    let searching = input["do_search"] == true;
    let protocol = Protocol { max_turns: usize::from(searching), ..protocol() };
    let mut draws = rows("randint_stream").map(|draw| draw.as_u64().unwrap());

    let mut observations = Vec::new();
    let (mut dones, mut valid, mut searches) = (Vec::new(), Vec::new(), Vec::new());
    let mut probes = Vec::new();
    for (i, text) in rows("texts").enumerate() {
        if input["active"][i] == false {
            observations.push(json!({"text": ""}));
            dones.push(1);
            valid.push(0);
            searches.push(0);
            continue;
        }
        let mut episode = Episode::new(Chars.encode("Q:"));
        write(&mut episode, text.as_str().unwrap(), &protocol);
        let query = match episode.need() {
            Need::Passages { query } => Some(query.to_owned()),
            _ => None,
        };
        if let Some(query) = &query {
            episode.push_passages(&search(input, query), &protocol, &Chars);
        }
        dones.push(u8::from(episode.answer().is_some()));
        valid.push(u8::from(episode.turns()[0].action.is_some()));
        searches.push(u8::from(episode.searches() > 0));
        observations.push(environment_text(&episode));

        let golds: Vec<_> = input["golds"][i].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let wrong = episode.answer().is_some_and(|answer| !official::exact_match(answer, &golds));
        let may_be_probed = input["original"][i] == true && input["is_validation"] == false && searching;
        if wrong && may_be_probed && draws.next().unwrap() < input["revision_prob"].as_u64().unwrap() {
            let prompt = draws.next().unwrap();
            let probe = episode.probe(ProbeOn::WrongAnswer, &Chars.encode("<think> hm"), &protocol, &Chars);
            probes.push((i, prompt, probe.unwrap()));
        }
    }
    assert_eq!(draws.next(), None, "{name}");
    for (_, prompt, _) in &probes {
        observations.push(json!({"revision_prompt_index": prompt}));
        dones.push(0);
        valid.push(1);
        searches.push(0);
    }

    if searching {
        assert_eq!(json!(observations), expected["observations"], "{name}");
    } else {
        // The official loop builds observations in its last generation too and never uses them; we build none.
        assert!(observations.iter().all(|shown| shown["text"] == ""), "{name}");
    }
    assert_eq!(json!(dones), expected["dones"], "{name}");
    assert_eq!(json!(valid), expected["valid_action"], "{name}");
    assert_eq!(json!(searches), expected["is_search"], "{name}");
    let parents: Vec<_> = probes.iter().map(|(parent, ..)| parent).collect();
    assert_eq!(json!(parents), expected["cloned_from"], "{name}");
    assert_eq!(json!(probes.len()), expected["revision_count"], "{name}");

    let texts_out = expected["texts_out"].as_array().unwrap();
    for ((_, _, probe), official) in probes.iter().zip(&texts_out[observations.len() - probes.len()..]) {
        let kept = response(probe);
        let kept = kept.strip_suffix("<think> hm").unwrap();
        match name.as_str() {
            // The official clone deletes the answer from inside a text that ran on; our turn ended with the answer.
            Some("step_repeated_answer_text_all_deleted" | "step_only_first_answer_scored") => {
                assert_eq!(kept, "")
            }
            _ => assert_eq!(kept, official, "{name}"),
        }
    }
}

fn search(input: &Value, query: &str) -> Vec<Passage> {
    match &input["search_results"][query] {
        Value::Null => vec![passage(&format!("t\nbody of {query}"))],
        Value::String(text) if text.is_empty() => Vec::new(),
        other => panic!("{other}"),
    }
}

fn environment_text(episode: &Episode) -> Value {
    let said = episode
        .segments(&Chars)
        .into_iter()
        .filter(|segment| matches!(segment.author, Author::Notice | Author::Information));
    match said.map(|segment| segment.text).collect::<String>() {
        text if text == NOTICE => json!({"invalid_action_notice": true}),
        text => json!({"text": text}),
    }
}
