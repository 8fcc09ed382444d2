//! The official multi-turn loop, replayed: the same scripted generations give the same transcripts.
//!
//! Compared for every row: contexts, response, component and loss mask per token, turns, actions, searches, whether it is
//! still open, and the rows that were cloned. Where our rules depart on purpose, the departure is what is checked:
//! - the end-of-text id that a turn ended with stays in our transcript (here it is left out of the comparison);
//! - an observation that is too long loses passages, not its closing tag;
//! - a full context ends the episode; the official loop cuts its contexts on the left and its responses on the right.

#[path = "../../../tests/fixtures/recorded.rs"]
#[allow(dead_code, unreachable_pub)]
mod recorded;
mod support;

use recorded::golden;
use rex_rollout::rewards::official;
use rex_rollout::{Author, Codec, Episode, Need, Outcome, Passage, ProbeOn, Protocol};
use serde_json::{Value, json};
use support::{Chars, END, passage, protocol, response, write};

#[test]
fn recorded_runs() {
    for case in golden("rollout_loop.json") {
        let run = replay(&case["input"]);
        match case["name"].as_str() {
            Some("observation_truncated_loses_closing_tag") => check_cut_observation(&run),
            Some("response_cut_right_and_rolling_cut_left") => check_full_context(&run),
            _ => check_run(&case, &run),
        }
    }
}

struct Run {
    episodes: Vec<Episode>,
    /// Row of the parent, for each probe.
    parents: Vec<usize>,
    /// What the policy saw, call by call.
    contexts: Vec<Vec<String>>,
}

fn replay(input: &Value) -> Run {
    let number = |key: &str| input[key].as_u64().unwrap() as usize;
    let list = |key: &str| input[key].as_array().unwrap();
    let protocol = Protocol {
        max_turns: number("max_turns"),
        max_obs_tokens: number("max_obs_length"),
        max_total_tokens: number("max_prompt_length"),
        ..protocol()
    };
    let mut draws = list("randint_stream").iter().map(|draw| draw.as_u64().unwrap());
    // The official loop keeps the end of a long prompt; for us that is the data loader's business.
    let prompts = list("prompts").iter().map(|prompt| {
        let ids = Chars.encode(prompt.as_str().unwrap());
        ids[ids.len().saturating_sub(number("max_start_length"))..].to_vec()
    });
    let mut run =
        Run { episodes: prompts.map(Episode::new).collect(), parents: Vec::new(), contexts: Vec::new() };

    for texts in list("generations") {
        let running: Vec<usize> =
            (0..run.episodes.len()).filter(|&row| run.episodes[row].need() == Need::Token).collect();
        run.contexts.push(running.iter().map(|&row| context(&run.episodes[row])).collect());
        for (&row, text) in running.iter().zip(texts.as_array().unwrap()) {
            let episode = &mut run.episodes[row];
            write(episode, text.as_str().unwrap(), &protocol);
            if let Need::Passages { query } = episode.need() {
                let passages = search(input, query);
                episode.push_passages(&passages, &protocol, &Chars);
            }
            let Some(answer) = episode.answer() else { continue };
            // A probe has no golds of its own here, and is never probed again.
            let Some(golds) = input["golds"].get(row) else { continue };
            let golds: Vec<_> = golds.as_array().unwrap().iter().filter_map(Value::as_str).collect();
            if official::exact_match(answer, &golds) || input["is_validation"] == true {
                continue;
            }
            // A placeholder tells whether it may be probed before anything is drawn, as the official order has it.
            let probe =
                |prompt: &str| episode.probe(ProbeOn::WrongAnswer, &Chars.encode(prompt), &protocol, &Chars);
            if probe("").is_some() && draws.next().unwrap() < number("revision_prob") as u64 {
                let prompt = &list("revision_prompts")[draws.next().unwrap() as usize];
                let probe = probe(prompt.as_str().unwrap()).unwrap();
                run.parents.push(row);
                run.episodes.push(probe);
            }
        }
    }
    assert_eq!(draws.next(), None);
    run
}

fn check_run(case: &Value, run: &Run) {
    let (name, expected) = (&case["name"], &case["expected"]);
    assert_eq!(json!(run.parents), expected["clone_rollout_index"], "{name}");
    if name != "prompt_cut_from_left_by_max_start_length" {
        assert_eq!(json!(run.contexts), expected["actor_inputs"], "{name}");
    }
    let rows: Vec<Value> = run.episodes.iter().map(row).collect();
    assert_eq!(json!(rows), expected["rows"], "{name}");
    let longest = run.episodes.iter().map(|episode| response(episode).chars().count()).max();
    assert_eq!(json!(longest), expected["response_length"], "{name}");
}

fn row(episode: &Episode) -> Value {
    let transcript = episode.transcript();
    let shown = transcript.ids().iter().zip(transcript.authors());
    let authors: Vec<Author> = shown.filter(|(id, _)| **id != END).map(|(_, author)| *author).collect();
    let prompt = authors.iter().filter(|author| **author == Author::Prompt).count();
    let original = episode.branch().is_none();
    let actions = episode.turns().iter().filter(|turn| turn.action.is_some()).count();
    json!({
        "prompt": Chars.decode(&transcript.ids()[..prompt]),
        "response": response(episode),
        "component": authors[prompt..].iter().map(|&author| (author as u8).to_string()).collect::<String>(),
        "loss_mask": authors[prompt..].iter().map(|author| u8::from(author.in_loss()).to_string()).collect::<String>(),
        "original": original,
        "final_position_id": authors.len() - 1,
        "turns": episode.turns().len(),
        // The official counters of a clone still count the answer that was cut from it.
        "valid_actions": actions + usize::from(!original),
        "searches": episode.searches(),
        "still_active": episode.answer().is_none(),
    })
}

fn check_cut_observation(run: &Run) {
    // 30 tokens are fewer than an empty block has; the block is closed all the same.
    let [episode] = &run.episodes[..] else { panic!("one row") };
    assert_eq!(episode.segments(&Chars)[2].text, "\n\n<information></information>\n\n");
    assert_eq!(episode.answer(), Some("Paris"));
}

fn check_full_context(run: &Run) {
    let [episode] = &run.episodes[..] else { panic!("one row") };
    assert_eq!(response(episode), "<think>q</think>\n<search>louvre</search>");
    assert_eq!(episode.outcome(), Some(&Outcome::Truncated));
}

fn context(episode: &Episode) -> String {
    let ids = episode.transcript().ids().iter().copied().filter(|&id| id != END);
    Chars.decode(&ids.collect::<Vec<_>>())
}

fn search(input: &Value, query: &str) -> Vec<Passage> {
    match &input["search_results"][query] {
        Value::Null => vec![passage(&format!("T\nbody of {query}"))],
        Value::Array(contents) => contents.iter().map(|text| passage(text.as_str().unwrap())).collect(),
        other => panic!("{other}"),
    }
}
