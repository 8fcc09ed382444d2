//! Hopworld: an invented encyclopedia small enough to learn to search in ten minutes.
//!
//! A [`World`] is a set of people with a passage each, drawn from one [`Split`] of the names, so that training,
//! validation and test worlds have no person and no fact in common: what can be learnt is to search. Reading order:
//! [`words`], what names and facts are made of; [`world`], people and questions; [`files`], a world as an ordinary corpus
//! and question file; [`model`], the untrained decoder, and its word-level [`tokenizer`]; [`drill`] and
//! [`demonstration`], what it is taught, and [`lessons`], in which mixture.

pub mod demonstration;
pub mod drill;
pub mod files;
pub mod lessons;
pub mod model;
pub mod tokenizer;
pub mod words;
pub mod world;

pub use lessons::Lessons;
pub use words::{Name, Relation, Split};
pub use world::{Question, World, WorldError};
