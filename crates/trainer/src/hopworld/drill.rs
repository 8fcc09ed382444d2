//! Drills: passages, and their facts recited, so that looking a fact up is learnt before anything else.

use super::world::World;
use crate::error::TrainError;
use crate::sampler::Sampler;
use crate::sft::Example;
use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use rex_rollout::observation::encode_observation;

/// Facts recited in a drill. Each is drawn anew: in a recitation without repetition those left out so far could be
/// guessed, and the model would learn to count instead of to look.
const RECITATIONS: usize = 8;

/// What a search for somebody shows, one to `topk` passages, then facts out of it. The loss is on the names that the
/// facts lead to.
///
/// # Errors
/// The retriever's.
pub fn drill(world: &World, sampler: &Sampler<'_>, random: &mut ChaCha8Rng) -> Result<Example, TrainError> {
    let subject = world.name(random.random_range(0..world.people().len())).to_string();
    let passages = sampler.retriever.retrieve(&[&subject], random.random_range(1..=sampler.topk))?.concat();
    let people = passages.iter().filter_map(|passage| world.person(&passage.id));
    let facts: Vec<_> = people
        .flat_map(|person| world.people()[person].facts.iter().map(move |&fact| (person, fact)))
        .collect();

    let mut example = Example::default();
    example.push(&encode_observation(&passages, sampler.protocol.max_obs_tokens, sampler.codec), false);
    let mut say = |text: &str, learnt| example.push(&sampler.codec.encode(text), learnt);
    say("<think>", false);
    for _ in 0..RECITATIONS {
        let &(person, (relation, whom)) = facts.choose(random).expect("everybody has facts");
        say(&format!("{} has {relation}", world.name(person)), false);
        say(&world.name(whom).to_string(), true);
        say(".", false);
    }
    Ok(example)
}
