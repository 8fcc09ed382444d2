//! What a batch of Hopworld's supervised training is made of.

use super::demonstration::{Script, demonstrate};
use super::drill::drill;
use super::files::MAX_HOPS;
use super::words::Split;
use super::world::World;
use crate::config::HopworldConfig;
use crate::environment::Environment;
use crate::error::TrainError;
use crate::sampler::Sampler;
use crate::sft::Example;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_rollout::Author;
use rex_rollout::retrieval::Bm25Index;

/// Drills and demonstrations on a world that is made for the batch and never seen again.
#[derive(Debug, Clone)]
pub struct Lessons {
    pub settings: HopworldConfig,
    /// Share of drills in a batch.
    pub drills: f64,
    pub seed: u64,
}

impl Lessons {
    /// The batch of a step; the same for the same seed and step.
    ///
    /// # Errors
    /// A world of more people than there are names, or the retriever's.
    pub fn batch(
        &self,
        environment: &Environment,
        step: u64,
        size: usize,
    ) -> Result<Vec<Example>, TrainError> {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream(step);
        let world = World::new(random.random(), Split::Train, self.settings.people)?;
        let index = Bm25Index::in_memory(world.passages())?;
        let sampler = Sampler { retriever: &index, ..environment.sampler() };
        let mut batch = Vec::with_capacity(size);
        while batch.len() < size {
            if random.random_bool(self.drills) {
                batch.push(drill(&world, &sampler, &mut random)?);
            } else {
                batch.extend(self.demonstration(&world, environment, &sampler, &mut random)?);
            }
        }
        Ok(batch)
    }

    fn demonstration(
        &self,
        world: &World,
        environment: &Environment,
        sampler: &Sampler<'_>,
        random: &mut ChaCha8Rng,
    ) -> Result<Option<Example>, TrainError> {
        let question = world.draw_question(random.random_range(1..=MAX_HOPS), random);
        let exploration = environment.pool().draw(random.random());
        let script = match random.random_bool(self.settings.explored) {
            true => Script::GoOn { exploration },
            false => Script::StopShort,
        };
        let Some(episode) = demonstrate(world, &question, script, environment, sampler)? else {
            return Ok(None);
        };

        let mut example = Example::default();
        for (author, range) in episode.transcript().segments() {
            let ids = &episode.transcript().ids()[range];
            match author {
                // That an exploration prompt follows is the probe policy's choice, and the model's own only as often
                // as this weight says; how it goes on is always learnt.
                Author::Probe => {
                    example.push_weighted(&ids[..1], self.settings.chosen as f32);
                    example.push(&ids[1..], true);
                }
                _ => example.push(ids, author == Author::Model),
            }
        }
        Ok(Some(example))
    }
}
