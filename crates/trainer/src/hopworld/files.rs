//! A world as ordinary files: FlashRAG's `corpus.jsonl` and `questions.jsonl`.

use super::words::Split;
use super::world::{Question, World, WorldError};
use crate::data;
use crate::error::TrainError;
use crate::run_dir::replace_file;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use std::path::Path;

/// Questions have up to so many hops.
pub const MAX_HOPS: usize = 3;

/// Writes a world's passages and `questions` different questions, hops in turn, into `folder`. The same arguments give
/// the same bytes.
///
/// # Errors
/// A world that cannot be made, or the file system's, with the path.
pub fn write(
    seed: u64,
    split: Split,
    people: usize,
    questions: usize,
    folder: &Path,
) -> Result<(), TrainError> {
    let world = World::new(seed, split, people)?;
    let questions = question_lines(&world, seed, split, questions)?;
    let passage = |passage| serde_json::to_string(&passage).expect("plain text") + "\n";
    let corpus: String = world.passages().map(passage).collect();
    std::fs::create_dir_all(folder)
        .map_err(|source| TrainError::Io { path: folder.to_path_buf(), source })?;
    replace_file(&folder.join("corpus.jsonl"), corpus.as_bytes())?;
    replace_file(&folder.join("questions.jsonl"), questions.as_bytes())
}

fn question_lines(world: &World, seed: u64, split: Split, questions: usize) -> Result<String, WorldError> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut by_hops = Vec::new();
    for hops in 1..=MAX_HOPS {
        let mut all = world.questions(hops);
        let (asked, available) = (questions.saturating_sub(hops - 1).div_ceil(MAX_HOPS), all.len());
        if asked > available {
            return Err(WorldError::Questions { asked, hops, available });
        }
        all.shuffle(&mut random);
        by_hops.push(all.into_iter());
    }
    let in_turn = (0..questions).map(|i| by_hops[i % MAX_HOPS].next().expect("counted above"));
    Ok(in_turn
        .enumerate()
        .map(|(i, question)| line(world, format!("{split}-{seed}-{i}"), &question))
        .collect())
}

fn line(world: &World, id: String, question: &Question) -> String {
    let data::Question { id, question, golden_answers, data_source, metadata, .. } = question.ask(world, id);
    let line = json!({
        "id": id, "question": question, "golden_answers": golden_answers, "data_source": data_source, "metadata": metadata,
    });
    format!("{line}\n")
}
