//! `rex`: train language models to reason with a search engine.

mod args;
mod commands;
mod device;
mod hopworld;
mod server;
mod team;

use args::{Args, Command};
use clap::Parser;
use rex_trainer::TrainError;
use rex_trainer::compare::ArmError;
use rex_trainer::config::ConfigError;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Args { output, command } = Args::parse();
    let result = match command {
        Command::Train(args) => commands::train::run(args, output),
        Command::Sft(args) => commands::sft::run(args, output),
        Command::Eval(args) => commands::eval::run(args, output),
        Command::Ask(args) => commands::ask::run(args, output),
        Command::Index(args) => commands::index::run(args, output),
        Command::Serve(args) => commands::serve::run(args, output),
        Command::Compare(args) => commands::compare::run(args, output),
        Command::Export(args) => commands::export::run(args, output),
        Command::Report(args) => commands::report::run(args, output),
        Command::World(args) => commands::world::run(args, output),
        Command::Doctor(args) => commands::doctor::run(args, output),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    if is_broken_pipe(&error) {
        return ExitCode::SUCCESS;
    }
    eprintln!("rex: {error:#}");
    if is_usage(&error) { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// A wrong key, value or arm is a usage error, as a wrong flag is.
fn is_usage(error: &anyhow::Error) -> bool {
    error.is::<ConfigError>()
        || error.is::<ArmError>()
        || matches!(error.downcast_ref(), Some(TrainError::Config(_)))
}

/// The reader of our output left, as `| head` does: not a failure.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}
