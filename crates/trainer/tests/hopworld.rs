//! Hopworld: the same arguments give the same bytes, worlds of different splits have nothing in common, every text is in
//! the tokenizer's words, and searches are worth making and can fail.

use burn::module::Module;
use burn::tensor::Device;
use rex_model::{Precision, Tokenizer};
use rex_rollout::observation::observation;
use rex_rollout::retrieval::Bm25Index;
use rex_rollout::{Codec, ExplorationPool, NOTICE, Retriever, TurnText};
use rex_trainer::hopworld::tokenizer::{EXPLORATION, UNKNOWN, tokenizer_json};
use rex_trainer::hopworld::world::Person;
use rex_trainer::hopworld::{Split, World, files, model};
use std::collections::HashSet;
use std::fs;

struct Words(Tokenizer);

impl Words {
    fn new() -> Self {
        Self(Tokenizer::from_bytes(tokenizer_json().as_bytes()).unwrap())
    }
}

impl Codec for Words {
    fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode_text(text)
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids)
    }
}

#[test]
fn the_same_arguments_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        let of = |file: &str| fs::read_to_string(folder.path().join(name).join(file)).unwrap();
        (of("corpus.jsonl"), of("questions.jsonl"))
    };
    for (name, seed) in [("a", 1), ("b", 1), ("c", 2)] {
        files::write(seed, Split::Test, 50, 100, &folder.path().join(name)).unwrap();
    }
    assert_eq!(read("a"), read("b"));
    assert_ne!(read("a"), read("c"));
    let (corpus, questions) = read("a");
    assert_eq!((corpus.lines().count(), questions.lines().count()), (50, 100));
    assert_eq!(questions.lines().collect::<HashSet<_>>().len(), 100);
    let second = questions.lines().nth(1).unwrap();
    for part in
        [r#""id":"test-1-1""#, r#""data_source":"2-hop""#, r#""hops":2"#, r#""supporting_ids":["test-1-"#]
    {
        assert!(second.contains(part), "{second}");
    }
    let message = files::write(1, Split::Test, 5, 100, folder.path()).unwrap_err().to_string();
    assert!(message.contains("34 questions of 1 hops") && message.contains("only 20"), "{message}");
}

#[test]
fn worlds_of_different_splits_share_nobody() {
    let names = |split| -> HashSet<String> {
        let world = World::new(7, split, 200).unwrap();
        world.people().iter().map(|person| person.name.to_string()).collect()
    };
    let [train, validation, test] = Split::ALL.map(names);
    assert!(train.is_disjoint(&validation) && train.is_disjoint(&test) && validation.is_disjoint(&test));
}

#[test]
fn every_text_is_in_the_tokenizers_words() {
    let words = Words::new();
    let unknown = words.0.token_id(UNKNOWN).unwrap();
    let check = |text: &str| {
        let ids = words.encode(text);
        assert!(!ids.contains(&unknown), "{text}");
        assert_eq!(words.0.encode(text), ids, "{text}");
        let decoded = words.decode(&ids);
        assert_eq!(words.encode(&decoded), ids, "{decoded}");
        let mut growing = TurnText::default();
        for &id in &ids {
            growing.push(id, &words);
        }
        assert_eq!(growing.as_str(), decoded);
        decoded
    };
    let world = World::new(0, Split::Train, 300).unwrap();
    let index = Bm25Index::in_memory(world.passages()).unwrap();
    for person in world.people() {
        check(&observation(&index.retrieve(&[&person.name.to_string()], 5).unwrap().concat()));
    }
    for question in (1..=3).flat_map(|hops| world.questions(hops).into_iter().take(50)) {
        check(&model::PROMPT.replace("{question}", &question.text(&world)));
    }
    check(NOTICE);
    assert!(ExplorationPool::parse(EXPLORATION, &words).unwrap().prompts().len() >= 30);
    for line in EXPLORATION.lines() {
        assert!(line.starts_with("<think> ") && check(line) == line, "{line}");
    }
    let turn = "<think> Rilo Sunta has mother Tola Sunta. </think> <search> Tola Sunta </search>";
    assert_eq!(check(turn), turn);
    println!("{} words", words.0.vocab_size());
}

/// What is asked for by its full name is found; beside it stands somebody of a like name, and whoever is asked for by a
/// wrong one, as a model that mixes up two names does, is not found at all.
#[test]
fn a_search_finds_a_full_name_and_likenesses() {
    for (split, people) in [(Split::Test, 200), (Split::Train, 1000)] {
        let world = World::new(1, split, people).unwrap();
        let index = Bm25Index::in_memory(world.passages()).unwrap();
        let found = |query: &str| -> Vec<usize> {
            let passages = index.retrieve(&[query], 2).unwrap().concat();
            passages.iter().map(|passage| world.person(&passage.id).unwrap()).collect()
        };
        let (mut first, mut alike, mut mixed_up) = (0, 0, 0);
        for (person, Person { name, .. }) in world.people().iter().enumerate() {
            let shown = found(&name.to_string());
            first += usize::from(shown[0] == person);
            let other = world.name(shown[1]);
            alike += usize::from(other.first() == name.first() || other.last() == name.last());
            let next = world.name((person + 1) % people);
            mixed_up += usize::from(found(&format!("{} {}", name.first(), next.last())).contains(&person));
        }
        println!(
            "{split} {people}: first {first}, beside a like name {alike}, found by a wrong name {mixed_up}"
        );
        assert!(100 * first >= 98 * people, "{first} of {people}");
        assert!(100 * alike >= 50 * people, "{alike} of {people}");
        assert!(mixed_up < people / 2, "{mixed_up} of {people}");
    }
}

#[test]
fn the_untrained_model_is_small_and_reads_back() {
    let device = Device::flex();
    let folder = tempfile::tempdir().unwrap();
    let model = model::untrained(0, &device);
    let parameters = model.decoder.num_params();
    assert!((800_000..1_100_000).contains(&parameters), "{parameters}");
    model.save(folder.path(), Precision::F32, 1 << 30).unwrap();
    assert_eq!(rex_model::load(folder.path(), &device).unwrap().config, model.config);
}
