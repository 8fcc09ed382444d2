//! The command line.

use crate::commands::{ask, compare, doctor, eval, export, index, report, serve, sft, train, world};
use crate::hopworld;
use anyhow::Result;
use clap::{Parser, Subcommand};
use rex_trainer::config::Config;
use std::path::PathBuf;

/// Train language models to reason with a search engine, by reinforcement learning (REX-RAG).
#[derive(Debug, Parser)]
#[command(version, about, propagate_version = true)]
pub struct Args {
    #[command(flatten)]
    pub output: Output,
    #[command(subcommand)]
    pub command: Command,
}

/// How a command speaks.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Output {
    /// Print more; twice for the causes of errors
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print results only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print results as JSON lines
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train a model by reinforcement learning
    Train(train::TrainArgs),
    /// Train a model on transcripts, before reinforcement learning
    Sft(sft::SftArgs),
    /// Score a model on question files: EM, sub-EM, F1, searches a question
    Eval(eval::EvalArgs),
    /// Answer one question, streamed
    Ask(ask::AskArgs),
    /// Build and search a BM25 index
    Index(index::IndexArgs),
    /// Serve an index over HTTP, as Search-R1's retrieval servers do
    Serve(serve::ServeArgs),
    /// Train under several algorithms and seeds, and compare them
    Compare(compare::CompareArgs),
    /// Write a run's newest checkpoint as a Hugging Face folder
    Export(export::ExportArgs),
    /// Write a run's curves, warnings and transcripts as one HTML file
    Report(report::ReportArgs),
    /// Write an invented encyclopedia and questions about it
    World(world::WorldArgs),
    /// Show devices, memory and what is compiled in
    Doctor(doctor::DoctorArgs),
}

/// An experiment: a file and `key=value` words over it.
#[derive(Debug, clap::Args)]
pub struct Experiment {
    /// Configuration file (TOML); the built-in default, Hopworld, when absent
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Device: cpu, wgpu or cuda, as far as this build has them; cuda:1 is the second of its kind
    #[arg(long, default_value = "cpu")]
    pub device: String,
}

impl Experiment {
    /// The configuration file; where none was given, the built-in one called `default`.
    pub fn file(&self, default: &str) -> Result<PathBuf> {
        self.config.clone().map_or_else(|| hopworld::configuration(default), Ok)
    }

    /// The configuration, `overrides` laid over it.
    pub fn load(&self, default: &str, overrides: &[String]) -> Result<Config> {
        Ok(Config::load(Some(&self.file(default)?), overrides)?)
    }
}
