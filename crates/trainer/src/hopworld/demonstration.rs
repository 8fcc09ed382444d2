//! Demonstrations: whole episodes, played by a script through the machinery of real ones.

use super::world::{Question, World};
use crate::environment::Environment;
use crate::error::TrainError;
use crate::sampler::Sampler;
use rex_rollout::{Episode, Need, ProbeOn};

/// How the script answers a question.
#[derive(Debug, Clone, Copy)]
pub enum Script<'a> {
    /// With the first person it finds: right for one hop, a hop or two short for more.
    StopShort,
    /// The same, but before the answer this exploration prompt is put in, as mixed sampling does, and the script then
    /// follows the question to its end.
    GoOn { exploration: &'a [u32] },
}

/// Plays a question in a world whose passages `sampler` retrieves. None where a search did not find its passage.
///
/// # Errors
/// The retriever's, or a prompt that is too long.
pub fn demonstrate(
    world: &World,
    question: &Question,
    script: Script<'_>,
    environment: &Environment,
    sampler: &Sampler<'_>,
) -> Result<Option<Episode>, TrainError> {
    let mut stage = Stage { world, question, sampler };
    let mut episode = Episode::new(environment.task(&question.ask(world, String::new()))?.prompt);
    if !stage.search(&mut episode, "<think>", 0)? {
        return Ok(None);
    }
    stage.answer(&mut episode, &format!("<think> {} </think>", stage.found(0)), 1);
    let Script::GoOn { exploration } = script else { return Ok(Some(episode)) };

    let Some(mut episode) = episode.probe(ProbeOn::WrongAnswer, exploration, sampler.protocol, sampler.codec)
    else {
        return Ok(None);
    };
    for hop in 1..question.hops() {
        let thought = if hop == 1 { String::new() } else { format!("<think> {}", stage.found(hop - 1)) };
        if !stage.search(&mut episode, &thought, hop)? {
            return Ok(None);
        }
    }
    let thought = match question.hops() {
        1 => "That is the answer. </think>".to_string(),
        hops => format!("<think> {} </think>", stage.found(hops - 1)),
    };
    stage.answer(&mut episode, &thought, question.hops());
    Ok(Some(episode))
}

/// What the script plays in.
struct Stage<'a> {
    world: &'a World,
    question: &'a Question,
    sampler: &'a Sampler<'a>,
}

impl Stage<'_> {
    /// What the passage that this hop finds says.
    fn found(&self, hop: usize) -> String {
        let Question { chain, relations } = self.question;
        self.world.sentence(chain[hop], relations[hop], chain[hop + 1])
    }

    /// Carries a thought on to the search that the next hop needs. False where its passage is not found.
    fn search(&mut self, episode: &mut Episode, thought: &str, hop: usize) -> Result<bool, TrainError> {
        let person = self.question.chain[hop];
        let (name, relation) = (self.world.name(person), self.question.relations[hop]);
        self.write(
            episode,
            &format!("{thought} I need the {relation} of {name}. </think> <search> {name} </search>"),
        );
        let Need::Passages { query } = episode.need() else { return Ok(false) };
        let passages = self.sampler.retriever.retrieve(&[query], self.sampler.topk)?.concat();
        episode.push_passages(&passages, self.sampler.protocol, self.sampler.codec);
        Ok(passages.iter().any(|passage| self.world.person(&passage.id) == Some(person)))
    }

    fn answer(&self, episode: &mut Episode, thought: &str, place: usize) {
        let name = self.world.name(self.question.chain[place]);
        self.write(episode, &format!("{thought} <answer> {name} </answer>"));
    }

    /// Writes as the policy would, with certainty.
    fn write(&self, episode: &mut Episode, text: &str) {
        for id in self.sampler.codec.encode(text) {
            if !matches!(episode.need(), Need::Token) {
                break;
            }
            episode.push_token(id, 0.0, self.sampler.protocol, self.sampler.codec);
        }
    }
}
