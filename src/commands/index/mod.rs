//! `rex index`: builds an index over a corpus and looks into it.

mod build;
mod coverage;
mod pack;
mod search;
mod stats;

use crate::args::Output;
use anyhow::Result;

#[derive(Debug, clap::Args)]
pub struct IndexArgs {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Debug, clap::Subcommand)]
enum IndexCommand {
    /// Index a corpus: JSONL of `id` and `contents`, plain or gzipped
    Build(build::BuildArgs),
    /// Write an index as one file, which the browser demo opens in memory
    Pack(pack::PackArgs),
    /// Search an index; the queries are plain text, without syntax
    Search(search::SearchArgs),
    /// Show how many passages an index holds and what they take
    Stats(stats::StatsArgs),
    /// Show how many questions the corpus, and its best passages, can answer
    Coverage(coverage::CoverageArgs),
}

pub fn run(args: IndexArgs, output: Output) -> Result<()> {
    match args.command {
        IndexCommand::Build(args) => build::run(args, output),
        IndexCommand::Pack(args) => pack::run(args, output),
        IndexCommand::Search(args) => search::run(args, output),
        IndexCommand::Stats(args) => stats::run(args, output),
        IndexCommand::Coverage(args) => coverage::run(args, output),
    }
}
