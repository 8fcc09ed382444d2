//! Drills: passages, and their facts recited, so that looking a fact up is learnt before anything else.

use super::world::World;
use crate::error::TrainError;
use crate::sampler::Sampler;
use crate::sft::Example;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rex_rollout::observation::encode_observation;

/// Passages told again in a drill.
const RECITATIONS: usize = 3;

/// What a search for somebody shows, one to `topk` passages, then [`RECITATIONS`] times a passage told again with its
/// facts in another order. The loss is on the names that the facts lead to.
///
/// # Errors
/// The retriever's.
pub fn drill(world: &World, sampler: &Sampler<'_>, random: &mut ChaCha8Rng) -> Result<Example, TrainError> {
    let subject = world.name(random.random_range(0..world.people().len())).to_string();
    let passages = sampler.retriever.retrieve(&[&subject], random.random_range(1..=sampler.topk))?.concat();
    let mut people: Vec<usize> = passages.iter().filter_map(|passage| world.person(&passage.id)).collect();
    people.shuffle(random);

    let mut example = Example::default();
    example.push(&encode_observation(&passages, sampler.protocol.max_obs_tokens, sampler.codec), false);
    let mut say = |text: &str, learnt| example.push(&sampler.codec.encode(text), learnt);
    say("<think>", false);
    for &person in people.iter().cycle().take(RECITATIONS) {
        let mut facts = world.people()[person].facts.clone();
        facts.shuffle(random);
        say(&format!("{} has", world.name(person)), false);
        for (place, (relation, whom)) in facts.iter().enumerate() {
            let joint = if place == 0 {
                ""
            } else if place + 1 < facts.len() {
                ","
            } else {
                "and"
            };
            say(&format!("{joint} {relation}"), false);
            say(&world.name(*whom).to_string(), true);
        }
        say(".", false);
    }
    Ok(example)
}
