//! `rex eval`: scores a model on question files.

use super::model;
use super::progress::Bars;
use super::sampling::SamplingArgs;
use crate::args::{Experiment, Output};
use crate::device;
use crate::hopworld;
use anyhow::Result;
use rex_trainer::data::read_questions;
use rex_trainer::{Alone, Environment, Event, SourceScores, evaluate};
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct EvalArgs {
    #[command(flatten)]
    experiment: Experiment,
    /// Question files; the configuration's data.val_files when absent
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Questions of each file, from its start
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Overrides, for example retriever.topk=5
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

pub fn run(args: EvalArgs, output: Output) -> Result<()> {
    let config = args.experiment.load(hopworld::TRAIN, &args.overrides)?;
    let files = if args.data.is_empty() { config.val_files()?.to_vec() } else { args.data };
    let mut questions = Vec::new();
    for file in &files {
        let read = read_questions(file)?;
        let count = args.limit.unwrap_or(read.len()).min(read.len());
        questions.extend_from_slice(&read[..count]);
    }
    let device = device::open(&args.experiment.device)?;
    let model = rex_trainer::load_model(&model::locate(&config, output)?, &config.model, &device)?;
    let environment = Environment::new(&config, &model)?;

    let mut bars = Bars::new(output);
    let mut done = 0;
    let mut observe = |event: Event<'_>| {
        if let Event::Finished { .. } = event {
            done += 1;
            bars.show("evaluating", done, questions.len());
        }
    };
    let (evaluation, _) = evaluate(
        &Alone,
        &environment,
        &model.decoder,
        &questions,
        args.sampling.sampling(),
        args.sampling.seed,
        &mut observe,
    )?;
    bars.clear();

    let mut out = std::io::stdout();
    if output.json {
        writeln!(out, "{}", serde_json::to_string(&evaluation)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "{:<18} {:>5} {:>6} {:>7} {:>6} {:>9} {:>9} {:>7}",
        "source", "n", "EM", "sub-EM", "F1", "answered", "searches", "tokens"
    )?;
    let mut row = |name: &str, s: &SourceScores| {
        writeln!(
            out,
            "{name:<18} {:>5} {:>6.1} {:>7.1} {:>6.1} {:>9.1} {:>9.2} {:>7.1}",
            s.questions,
            100.0 * s.em,
            100.0 * s.sub_em,
            100.0 * s.f1,
            100.0 * s.answered,
            s.searches,
            s.response_length
        )
    };
    for (name, scores) in &evaluation.sources {
        row(name, scores)?;
    }
    row("all", &evaluation.overall)?;
    Ok(())
}
