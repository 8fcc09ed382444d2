//! A world: people, the passage about each, and the questions that can be asked about them.

use super::words::{Name, Relation, Split};
use crate::data;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_rollout::retrieval::Document;
use serde_json::json;

/// People and how they are related.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    seed: u64,
    split: Split,
    people: Vec<Person>,
}

/// Somebody, with one fact a relation in the order in which the passage tells them. Persons are named by their place in
/// the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    pub name: Name,
    pub facts: Vec<(Relation, usize)>,
}

/// `Who is the R2 of the R1 of SUBJECT?`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// From the subject outwards: `R1, R2, …`.
    pub relations: Vec<Relation>,
    /// The subject, whom the relations lead to one after the other, and last the answer. All are different, so whoever
    /// stops short is wrong.
    pub chain: Vec<usize>,
}

/// A world that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    #[error("{asked} people: a world has {} to {available} in the {split} split", World::SMALLEST)]
    People { asked: usize, available: usize, split: Split },
    #[error(
        "{asked} questions of {hops} hops: these people have only {available}; ask for more people or fewer questions"
    )]
    Questions { asked: usize, hops: usize, available: usize },
}

impl World {
    /// Each of four relations leads to somebody else.
    pub const SMALLEST: usize = Relation::ALL.len() + 1;

    /// The world of this seed. Mothers share their child's last name where one is there, so families have passages that
    /// a search engine confuses.
    ///
    /// # Errors
    /// [`WorldError::People`] for fewer than [`World::SMALLEST`] or more than the split has names.
    pub fn new(seed: u64, split: Split, people: usize) -> Result<Self, WorldError> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut names = split.names();
        let available = names.len();
        if !(Self::SMALLEST..=available).contains(&people) {
            return Err(WorldError::People { asked: people, available, split });
        }
        names.shuffle(&mut random);
        names.truncate(people);
        let people = (0..people).map(|person| Person::new(person, &names, &mut random)).collect();
        Ok(Self { seed, split, people })
    }

    pub fn people(&self) -> &[Person] {
        &self.people
    }

    pub fn name(&self, person: usize) -> Name {
        self.people[person].name
    }

    /// Whom a relation leads to.
    pub fn follow(&self, person: usize, relation: Relation) -> usize {
        let fact = self.people[person].facts.iter().find(|fact| fact.0 == relation);
        fact.expect("everybody has every relation").1
    }

    /// The id of a person's passage, unique over all worlds.
    pub fn passage_id(&self, person: usize) -> String {
        format!("{}-{}-{person}", self.split, self.seed)
    }

    /// Whose passage has this id.
    pub fn person(&self, passage_id: &str) -> Option<usize> {
        let person = passage_id.rsplit('-').next()?.parse().ok()?;
        (person < self.people.len() && self.passage_id(person) == passage_id).then_some(person)
    }

    /// The passage about somebody: a sentence a fact.
    pub fn passage(&self, person: usize) -> Document {
        let facts = self.people[person].facts.iter();
        let told: Vec<String> =
            facts.map(|&(relation, whom)| self.sentence(person, relation, whom)).collect();
        let contents = format!("\"{}\"\n{}", self.name(person), told.join(" "));
        Document { id: self.passage_id(person), contents }
    }

    /// `Rilo Sunta has mother Pano Vile.`, in passages as in thoughts: what stands before a name says all that is needed
    /// to look it up.
    pub fn sentence(&self, person: usize, relation: Relation, whom: usize) -> String {
        format!("{} has {relation} {}.", self.name(person), self.name(whom))
    }

    /// The corpus.
    pub fn passages(&self) -> impl Iterator<Item = Document> {
        (0..self.people.len()).map(|person| self.passage(person))
    }

    /// One of the questions of so many hops, each as likely as the walks that lead to it.
    pub fn draw_question(&self, hops: usize, random: &mut ChaCha8Rng) -> Question {
        let mut question =
            Question { relations: vec![], chain: vec![random.random_range(0..self.people.len())] };
        for _ in 0..hops {
            let next = self.extensions(&question);
            question =
                next.choose(random).expect("four relations leave more than three people to go to").clone();
        }
        question
    }

    /// All questions of so many hops.
    pub fn questions(&self, hops: usize) -> Vec<Question> {
        let start = |person| Question { relations: vec![], chain: vec![person] };
        let subjects: Vec<Question> = (0..self.people.len()).map(start).collect();
        (0..hops).fold(subjects, |all, _| all.iter().flat_map(|question| self.extensions(question)).collect())
    }

    /// The question carried one relation further, to people it has not been to.
    fn extensions(&self, question: &Question) -> Vec<Question> {
        let extended = |relation| {
            let whom = self.follow(question.answer(), relation);
            (!question.chain.contains(&whom)).then(|| Question {
                relations: [&question.relations[..], &[relation]].concat(),
                chain: [&question.chain[..], &[whom]].concat(),
            })
        };
        Relation::ALL.into_iter().filter_map(extended).collect()
    }
}

impl Person {
    fn new(person: usize, names: &[Name], random: &mut ChaCha8Rng) -> Self {
        let name = names[person];
        let mut others: Vec<usize> = (0..names.len()).filter(|&other| other != person).collect();
        let family: Vec<usize> =
            others.iter().copied().filter(|&other| names[other].last() == name.last()).collect();
        let mother =
            *family.choose(random).unwrap_or_else(|| others.choose(random).expect("there are others"));
        others.retain(|&other| other != mother);
        let mut rest = others.sample(random, Relation::ALL.len() - 1).copied();
        let mut whom = |relation| match relation {
            Relation::Mother => mother,
            _ => rest.next().expect("a world is large enough"),
        };
        let mut facts: Vec<(Relation, usize)> =
            Relation::ALL.into_iter().map(|relation| (relation, whom(relation))).collect();
        facts.shuffle(random);
        Self { name, facts }
    }
}

impl Question {
    pub fn hops(&self) -> usize {
        self.relations.len()
    }

    pub fn subject(&self) -> usize {
        self.chain[0]
    }

    pub fn answer(&self) -> usize {
        self.chain[self.hops()]
    }

    /// The passages from which the answer follows.
    fn supporting_ids(&self, world: &World) -> Vec<String> {
        self.chain[..self.hops()].iter().map(|&person| world.passage_id(person)).collect()
    }

    /// The question as a question file has it.
    pub fn ask(&self, world: &World, id: String) -> data::Question {
        data::Question {
            id,
            question: self.text(world),
            golden_answers: vec![world.name(self.answer()).to_string()],
            data_source: format!("{}-hop", self.hops()),
            metadata: json!({"hops": self.hops(), "supporting_ids": self.supporting_ids(world)}),
            prompt: None,
        }
    }

    /// `Who is the mother of the teacher of Rilo Sunta?`
    pub fn text(&self, world: &World) -> String {
        let of: String = self.relations.iter().rev().map(|relation| format!(" the {relation} of")).collect();
        format!("Who is{of} {}?", world.name(self.subject()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn passages_tell_every_fact_and_questions_follow_them() {
        let world = World::new(3, Split::Validation, 40).unwrap();
        assert_eq!(world, World::new(3, Split::Validation, 40).unwrap());
        assert_ne!(world, World::new(4, Split::Validation, 40).unwrap());
        for (place, (passage, person)) in world.passages().zip(world.people()).enumerate() {
            assert_eq!(world.person(&passage.id), Some(place));
            for &(relation, whom) in &person.facts {
                assert!(
                    passage.contents.contains(&format!(" {relation} {}", world.name(whom))),
                    "{passage:?}"
                );
            }
        }
        for hops in 1..=3 {
            let all = world.questions(hops);
            let texts: HashSet<String> = all.iter().map(|question| question.text(&world)).collect();
            assert_eq!(texts.len(), all.len());
            for question in &all {
                assert_eq!(question.chain.iter().collect::<HashSet<_>>().len(), hops + 1);
                let walk = question.relations.iter().fold(question.subject(), |p, &r| world.follow(p, r));
                assert_eq!(walk, question.answer());
            }
            let mut random = ChaCha8Rng::seed_from_u64(0);
            assert!((0..20).all(|_| all.contains(&world.draw_question(hops, &mut random))));
        }
    }

    #[test]
    fn the_smallest_world_has_questions_and_a_smaller_one_is_refused() {
        let world = World::new(0, Split::Test, World::SMALLEST).unwrap();
        assert!(!world.questions(3).is_empty());
        for people in [0, World::SMALLEST - 1, 231] {
            let message = World::new(0, Split::Test, people).unwrap_err().to_string();
            assert_eq!(message, format!("{people} people: a world has 5 to 230 in the test split"));
        }
    }
}
