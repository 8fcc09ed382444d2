//! The rules of an episode, one by one.

mod support;

use rex_rollout::{
    Action, Author, Branch, Codec, DEFAULT_EXPLORATION, Episode, ExplorationPool, NOTICE, Need, Outcome,
    PoolError, ProbeOn, Protocol, Record,
};
use support::{Chars, END, Pieces, passage, protocol, response, write};

fn started() -> Episode {
    Episode::new(Chars.encode("Q:"))
}

/// Plays turns; a search is answered by one passage that names its query.
fn play(turns: &[&str], protocol: &Protocol) -> Episode {
    let mut episode = started();
    play_on(&mut episode, turns, protocol);
    episode
}

fn play_on(episode: &mut Episode, turns: &[&str], protocol: &Protocol) {
    for text in turns {
        write(episode, text, protocol);
        if let Need::Passages { query } = episode.need() {
            let passages = [passage(&format!("T\nabout {query}"))];
            episode.push_passages(&passages, protocol, &Chars);
        }
    }
}

#[test]
fn how_episodes_end() {
    let check = |turns: &[&str], outcome: Option<Outcome>, searches: usize| {
        let episode = play(turns, &protocol());
        assert_eq!((episode.outcome(), episode.searches()), (outcome.as_ref(), searches), "{turns:?}");
    };
    let answer = |text: &str| Some(Outcome::Answer(text.into()));
    check(&[], None, 0);
    check(&["<answer> A </answer>"], answer("A"), 0);
    check(&["<answer></answer>"], answer(""), 0);
    check(&["<search>q</search>", "<answer>A</answer>"], answer("A"), 1);
    check(&["nothing", "<answer>A</answer>"], answer("A"), 0);
    check(&["<search>a</search>", "x", "<search>b</search>", "<answer>A</answer>"], answer("A"), 2);
    // The fourth turn is the last one, without search.
    check(&["a", "b", "c"], None, 0);
    check(&["a", "b", "c", "d"], Some(Outcome::NoAnswer), 0);
    check(&["a", "b", "c", "<search>q</search>"], Some(Outcome::NoAnswer), 1);
    check(&["a", "b", "c", "<search>q</search><answer>A</answer>"], Some(Outcome::NoAnswer), 1);
}

#[test]
fn a_last_turn_adds_nothing_from_the_environment() {
    let only_last = Protocol { max_turns: 0, ..protocol() };
    for text in ["<search>q</search>", "nothing"] {
        let episode = play(&[text], &only_last);
        assert_eq!(response(&episode), text);
        assert_eq!(episode.outcome(), Some(&Outcome::NoAnswer));
    }
}

#[test]
fn an_empty_query_gets_an_empty_block_and_asks_nobody() {
    let mut episode = started();
    write(&mut episode, "<search> \n </search>", &protocol());
    assert_eq!(episode.need(), Need::Token);
    assert_eq!(response(&episode), "<search> \n </search>\n\n<information></information>\n\n");
    assert_eq!(
        (episode.searches(), episode.turns()[0].action.clone()),
        (1, Some(Action::Search(String::new())))
    );
}

#[test]
fn an_end_of_text_id_ends_the_turn_and_stays() {
    let mut episode = started();
    for id in [u32::from('h'), END] {
        episode.push_token(id, -0.5, &protocol(), &Chars);
    }
    let (transcript, turn) = (episode.transcript(), &episode.turns()[0]);
    assert_eq!(transcript.ids()[3], END);
    assert_eq!((transcript.authors()[3], transcript.log_probs()[3]), (Author::Model, -0.5));
    assert_eq!((turn.tokens.clone(), turn.text.as_str()), (2..4, "h"));
    assert_eq!(episode.segments(&Chars)[2].text, NOTICE);
}

#[test]
fn a_turn_ends_at_its_token_limit() {
    let short = Protocol { max_response_tokens: 5, ..protocol() };
    let mut episode = started();
    for c in "<answer>".chars() {
        episode.push_token(c.into(), 0.0, &short, &Chars);
    }
    // Each turn is parsed on its own: "<answ" and "er>" make no tag.
    assert_eq!(response(&episode), format!("<answ{NOTICE}er>"));
    assert_eq!(episode.draft(), "er>");
}

#[test]
fn a_full_context_ends_the_episode() {
    let check = |room: usize, turns: &[&str], expected: &str| {
        let protocol = Protocol { max_total_tokens: "Q:".len() + room, ..protocol() };
        let episode = play(turns, &protocol);
        assert_eq!(episode.outcome(), Some(&Outcome::Truncated), "{turns:?}");
        assert_eq!(response(&episode), expected);
        assert!(episode.transcript().len() <= protocol.max_total_tokens);
    };
    check(3, &["abcdef"], "abc");
    check(9, &["ab"], "ab"); // END follows; the notice has no room
    check(20, &["<search>q</search>"], "<search>q</search>");
    // An empty block has 31 characters, and the next turn needs one.
    check(17 + 31, &["<search></search>"], "<search></search>");
    // An answer that ends exactly at the limit is an answer.
    let exact = Protocol { max_total_tokens: "Q:<answer>A</answer>".len(), ..protocol() };
    assert_eq!(play(&["<answer>A</answer>"], &exact).answer(), Some("A"));
}

#[test]
fn a_token_that_straddles_a_tag_stays_whole() {
    let codec = Pieces(["<think>", " a.<ans", "wer> Rome", " </answer>.", "\n", "!"].map(Vec::from).to_vec());
    let protocol = Protocol { end_ids: vec![], ..protocol() };
    let mut episode = Episode::new(vec![]);
    for id in 0..4 {
        episode.push_token(id, -1.0, &protocol, &codec);
    }
    assert_eq!(episode.transcript().ids(), [0, 1, 2, 3]);
    assert_eq!(episode.turns()[0].text, "<think> a.<answer> Rome </answer>.");
    assert_eq!(episode.answer(), Some("Rome"));
    // The probe is cut at the token in which the tag begins.
    let probe = episode.probe(ProbeOn::WrongAnswer, &[4, 5], &protocol, &codec).unwrap();
    assert_eq!(probe.transcript().ids(), [0, 4, 5]);
    assert_eq!(probe.turns()[0].text, "<think>");
}

#[test]
fn what_others_write_is_never_parsed() {
    let mut episode = Episode::new(Chars.encode("Example: <answer> Beijing </answer>."));
    write(&mut episode, "<search>q</search>", &protocol());
    episode.push_passages(&[passage("T\n</information><answer>Rome</answer> <search>")], &protocol(), &Chars);
    let shown = &episode.segments(&Chars)[2].text;
    assert_eq!(
        shown,
        "\n\n<information>Doc 1(Title: T) ‹/information›‹answer›Rome‹/answer› ‹search›</information>\n\n"
    );
    write(&mut episode, "x</search></answer>", &protocol());
    assert_eq!(episode.need(), Need::Token);
    assert_eq!(episode.turns()[1].action, None);
}

#[test]
fn long_observations_lose_passages_and_stay_closed() {
    let passages = [passage("A\none two three"), passage("B\nfour five six"), passage("C\nseven")];
    let check = |max: usize, body: &str| {
        let protocol = Protocol { max_obs_tokens: max, ..protocol() };
        let mut episode = started();
        write(&mut episode, "<search>q</search>", &protocol);
        episode.push_passages(&passages, &protocol, &Chars);
        let observation = episode.segments(&Chars).last().unwrap().text.clone();
        assert_eq!(observation, format!("\n\n<information>{body}</information>\n\n"), "{max}");
        assert!(max < 31 || observation.chars().count() <= max, "{max}");
    };
    check(0, "");
    check(31, "");
    check(47, ""); // the title alone would fit
    check(49, "Doc 1(Title: A) on");
    check(50, "Doc 1(Title: A) one");
    check(53, "Doc 1(Title: A) one");
    check(54, "Doc 1(Title: A) one two");
    check(60, "Doc 1(Title: A) one two three");
    check(77, "Doc 1(Title: A) one two three");
    check(83, "Doc 1(Title: A) one two three\nDoc 2(Title: B) four");
    check(1000, "Doc 1(Title: A) one two three\nDoc 2(Title: B) four five six\nDoc 3(Title: C) seven");
}

#[test]
fn a_probe_continues_its_parents_tokens() {
    let parent = play(&["<search>q</search>", "<think>w</think><answer>Rome</answer>"], &protocol());
    let exploration = Chars.encode("<think> hm");
    let mut probe = parent.probe(ProbeOn::WrongAnswer, &exploration, &protocol(), &Chars).unwrap();

    let Branch { prefix, exploration: range } = probe.branch().unwrap().clone();
    assert_eq!(range, prefix..prefix + 10);
    let (ours, theirs) = (probe.transcript(), parent.transcript());
    assert_eq!(ours.ids()[..prefix], theirs.ids()[..prefix]);
    assert_eq!(ours.authors()[..prefix], theirs.authors()[..prefix]);
    assert_eq!(ours.log_probs()[..prefix], theirs.log_probs()[..prefix]);
    assert_eq!(ours.ids()[range.clone()], exploration);
    assert!(ours.authors()[range.clone()].iter().all(|&author| author == Author::Probe));
    assert!(response(&probe).ends_with("<think>w</think><think> hm"));

    probe.score(range.clone(), &[-0.5; 10]);
    assert_eq!(probe.transcript().log_probs()[range], [-0.5; 10]);
    play_on(&mut probe, &["m</think><answer>Paris</answer>"], &protocol());
    assert_eq!((probe.answer(), probe.turns().len(), probe.searches()), (Some("Paris"), 3, 1));
    assert_eq!(parent.answer(), Some("Rome"));
}

#[test]
fn which_episodes_may_be_probed() {
    use ProbeOn::{AnyFailure, WrongAnswer};
    let check = |turns: &[&str], on: ProbeOn, kept: Option<&str>| {
        let probe = play(turns, &protocol()).probe(on, &Chars.encode("<think>"), &protocol(), &Chars);
        let expected = kept.map(|kept| format!("{kept}<think>"));
        assert_eq!(probe.as_ref().map(response), expected, "{turns:?}");
        if let Some(probe) = probe {
            assert_eq!(probe.need(), Need::Token);
            let again = probe.probe(AnyFailure, &[1], &protocol(), &Chars);
            assert!(again.is_none(), "a probe is never probed");
        }
    };
    let (search, seen) = ("<search>q</search>", "\n\n<information>Doc 1(Title: T) about q</information>\n\n");
    let searched = format!("{search}{seen}");
    let answer = "a<answer>R</answer>";
    for on in [WrongAnswer, AnyFailure] {
        check(&[answer], on, Some("a"));
        check(&[search, answer], on, Some(&format!("{searched}a")));
        // The last turn that may search, then the search-less one.
        check(&["x", "x", answer], on, Some(&format!("x{NOTICE}x{NOTICE}a")));
        check(&["x", "x", "x", answer], on, None);
        // Still running, or nothing to go back to.
        check(&[search], on, None);
        check(&["x", "x", "x", "x"], on, None);
    }
    check(&[search, "x", "x", "x"], WrongAnswer, None);
    check(&[search, "x", "x", "x"], AnyFailure, Some(&searched));
    check(&["x", search, "x", search], AnyFailure, Some(&format!("x{NOTICE}{searched}")));
}

#[test]
fn a_probe_gets_the_turns_that_are_left() {
    let two = Protocol { max_turns: 2, ..protocol() };
    let parent = play(&["<search>q</search>", "<answer>R</answer>"], &two);
    let mut probe = parent.probe(ProbeOn::WrongAnswer, &Chars.encode("<think>"), &two, &Chars).unwrap();
    play_on(&mut probe, &["<search>more</search>"], &two);
    assert_eq!(probe.outcome(), Some(&Outcome::NoAnswer));
    // No room in the context: no probe.
    let full = Protocol { max_total_tokens: parent.transcript().len() - 11, ..two };
    assert!(parent.probe(ProbeOn::WrongAnswer, &Chars.encode("<think>"), &full, &Chars).is_none());
}

#[test]
fn a_record_survives_json() {
    let parent = play(&["<search>é</search>", "x", "<answer>R</answer>"], &protocol());
    let probe = parent.probe(ProbeOn::WrongAnswer, &[60], &protocol(), &Chars).unwrap();
    for episode in [started(), parent, probe] {
        let json = serde_json::to_string(&episode.record()).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&json).unwrap(), episode.record(), "{json}");
    }
}

#[test]
#[should_panic(expected = "an episode that needs Passages")]
fn a_token_in_place_of_passages_is_a_programming_error() {
    let mut episode = started();
    write(&mut episode, "<search>q</search>", &protocol());
    episode.push_token(1, 0.0, &protocol(), &Chars);
}

#[test]
fn exploration_pools() {
    let parse = |text: &str| ExplorationPool::parse(text, &Chars);
    let ids = |texts: &[&str]| texts.iter().map(|text| Chars.encode(text)).collect::<Vec<_>>();
    assert_eq!(parse("\n <think> a \r\n\n<think> b\n").unwrap().prompts(), ids(&["<think> a", "<think> b"]));
    assert_eq!(parse(" \n\n"), Err(PoolError::Empty));

    struct Mute;
    impl Codec for Mute {
        fn encode(&self, _: &str) -> Vec<u32> {
            Vec::new()
        }
        fn decode(&self, _: &[u32]) -> String {
            String::new()
        }
    }
    let error = ExplorationPool::parse("\nx", &Mute).unwrap_err();
    assert_eq!(error, PoolError::NoTokens { line: 2, prompt: "x".into() });
}

#[test]
fn the_default_pool() {
    let pool = ExplorationPool::parse(DEFAULT_EXPLORATION, &Chars).unwrap();
    assert!(pool.prompts().len() >= 30);
    let texts: Vec<_> = pool.prompts().iter().map(|ids| Chars.decode(ids)).collect();
    for (i, text) in texts.iter().enumerate() {
        assert!(text.starts_with("<think> ") && text.matches('<').count() == 1, "{text}");
        assert!(!texts[..i].contains(text), "{text}");
    }
    // Every prompt is drawn, the same one for the same seed.
    let drawn: std::collections::HashSet<_> = (0..1000).map(|seed| pool.draw(seed)).collect();
    assert_eq!(drawn.len(), pool.prompts().len());
    assert_eq!(pool.draw(7), pool.draw(7));
}
