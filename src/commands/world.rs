//! `rex world`: writes an invented encyclopedia and questions about it.

use crate::args::Output;
use anyhow::Result;
use rex_trainer::hopworld::{Split, files};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct WorldArgs {
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// People, with a passage each
    #[arg(long, default_value_t = 200, value_name = "N")]
    entities: usize,
    /// Questions, of one, two and three hops in turn
    #[arg(long, default_value_t = 300, value_name = "N")]
    questions: usize,
    /// Names to draw from, train, validation or test: worlds of different splits have nobody in common
    #[arg(long, default_value_t = Split::Train)]
    split: Split,
    /// Folder for corpus.jsonl and questions.jsonl
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
}

pub fn run(args: WorldArgs, output: Output) -> Result<()> {
    files::write(args.seed, args.split, args.entities, args.questions, &args.out)?;
    if !output.quiet && !output.json {
        println!("{}: {} passages, {} questions", args.out.display(), args.entities, args.questions);
    }
    Ok(())
}
