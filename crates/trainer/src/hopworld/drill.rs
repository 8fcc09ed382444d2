//! Drills: passages, and their facts recited, so that looking a fact up is learnt before anything else.

use super::world::World;
use crate::error::TrainError;
use crate::sampler::Sampler;
use crate::sft::Example;
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rex_rollout::observation::encode_observation;

/// Facts recited in a drill.
const RECITATIONS: usize = 12;

/// What a search for somebody shows, one to `topk` passages, then [`RECITATIONS`] of their facts in random order, again and
/// again where they have fewer. The loss is on the names that a fact leads to.
///
/// # Errors
/// The retriever's.
pub fn drill(world: &World, sampler: &Sampler<'_>, random: &mut ChaCha8Rng) -> Result<Example, TrainError> {
    let subject = world.name(random.random_range(0..world.people().len())).to_string();
    let passages = sampler.retriever.retrieve(&[&subject], random.random_range(1..=sampler.topk))?.concat();
    let told = passages.iter().filter_map(|passage| world.person(&passage.id));
    let mut facts: Vec<_> =
        told.flat_map(|who| world.people()[who].facts.iter().map(move |fact| (who, fact))).collect();

    let mut example = Example::default();
    example.push(&encode_observation(&passages, sampler.protocol.max_obs_tokens, sampler.codec), false);
    let mut say = |text: &str, learnt| example.push(&sampler.codec.encode(text), learnt);
    say("<think>", false);
    for recited in 0..RECITATIONS {
        let place = recited % facts.len();
        if place == 0 {
            facts.shuffle(random);
        }
        let (who, (relation, whom)) = facts[place];
        say(&format!("{} has {relation}", world.name(who)), false);
        say(&world.name(*whom).to_string(), true);
        say(".", false);
    }
    Ok(example)
}
