//! `rex sft`: supervised training on transcripts, before reinforcement learning.

use super::model;
use super::progress::Bars;
use crate::args::{Experiment, Output};
use crate::device;
use crate::hopworld;
use anyhow::Result;
use rex_trainer::config::Config;
use rex_trainer::data::read_questions;
use rex_trainer::sft::{Ability, Sft, SftStep, measure};
use rex_trainer::{Event, estimate};
use std::io::Write;

#[derive(Debug, clap::Args)]
pub struct SftArgs {
    #[command(flatten)]
    experiment: Experiment,
    /// Go on with the run in trainer.run_dir from its newest checkpoint
    #[arg(long)]
    resume: bool,
    /// Overrides, for example data.train_batch_size=16
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

/// Steps between two lines on the terminal.
const REPORT: usize = 25;

pub fn run(args: SftArgs, output: Output) -> Result<()> {
    let config = args.experiment.load(hopworld::SFT, &args.overrides)?;
    let device = device::open(&args.experiment.device)?;
    model::prefetch(&config, output)?;
    model::announce_memory(&estimate(&config, true)?, &args.experiment.device, output)?;
    let stop = super::interrupt::on_ctrl_c()?;
    let mut bars = Bars::new(output);
    let mut sft = if args.resume {
        Sft::resume(config.clone(), &device)?
    } else {
        Sft::start(config.clone(), &device)?
    };
    let finished = sft.run(&mut |step| {
        show(&mut bars, output, &step);
        !stop.is_set()
    })?;
    bars.clear();

    let run = sft.run_dir().root().display();
    if !finished {
        if !output.quiet && !output.json {
            println!("\nStopped with everything saved in {run}. Go on with the same command and --resume.");
        }
        return Ok(());
    }
    if !config.data.val_files.is_empty() {
        print(&ability(&sft, &config, &mut bars)?, output)?;
    }
    if !output.quiet && !output.json {
        println!("\nDone. The model is in {run}. Next: rex export {run} --out my-model");
    }
    Ok(())
}

fn show(bars: &mut Bars, output: Output, step: &SftStep<'_>) {
    let SftStep { stage, step, steps, metrics } = *step;
    bars.show(stage, step, steps);
    if output.json {
        println!("{}", serde_json::to_string(metrics).expect("numbers and strings"));
    } else if !output.quiet && step.is_multiple_of(REPORT) {
        let get = |name: &str| metrics.get(name).unwrap_or(f64::NAN);
        bars.clear();
        println!(
            "{stage} {step}  loss {:.4}  accuracy {:.3}  lr {:.2e}  {:.0} tokens/s",
            get("sft/loss"),
            get("sft/accuracy"),
            get("sft/lr"),
            get("perf/throughput"),
        );
    }
}

/// What the model can do on the validation questions.
fn ability(sft: &Sft, config: &Config, bars: &mut Bars) -> Result<Ability> {
    let mut questions = Vec::new();
    for file in &config.data.val_files {
        questions.extend(read_questions(file)?);
    }
    let limit = config.data.val_limit;
    questions.truncate(if limit > 0 { limit } else { usize::MAX });
    let samples = config.rollout.group_size;
    let total = questions.len() * (1 + samples);
    let mut done = 0;
    let mut observe = |event: Event<'_>| {
        if let Event::Finished { episode, .. } = event
            && episode.branch().is_none()
        {
            done += 1;
            bars.show("evaluation", done, total);
        }
    };
    let decoder = sft.model().decoder.frozen();
    let ability =
        measure(sft.environment(), &decoder, &questions, samples, config.trainer.seed, &mut observe)?;
    bars.clear();
    Ok(ability)
}

fn print(ability: &Ability, output: Output) -> Result<()> {
    let mut out = std::io::stdout();
    if output.json {
        writeln!(out, "{}", serde_json::to_string(ability)?)?;
        return Ok(());
    }
    writeln!(
        out,
        "{:<18} {:>5} {:>10} {:>11} {:>7} {:>9} {:>12}",
        "source", "n", "greedy EM", "sampled EM", "probes", "probe EM", "P(prompt)"
    )?;
    for (name, source) in &ability.sources {
        writeln!(
            out,
            "{name:<18} {:>5} {:>10.1} {:>11.1} {:>7} {:>9.1} {:>12.1e}",
            source.questions,
            100.0 * source.greedy_em,
            100.0 * source.sampled_em,
            source.probes,
            100.0 * source.probe_em,
            source.prompt_probability
        )?;
    }
    Ok(())
}
