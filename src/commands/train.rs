//! `rex train`: the training loop with progress, metrics and checkpoints.

use super::interrupt::{self, Interrupt};
use super::model;
use super::progress::Bars;
use super::summary;
use crate::args::{Experiment, Output};
use crate::device;
use crate::hopworld;
use crate::team::{self, Place};
use anyhow::Result;
use rex_trainer::config::Config;
use rex_trainer::{Evaluation, Metrics, Observer, Phase, Trainer, Warning, estimate, report};
use std::io::Write;
use std::path::Path;

#[derive(Debug, clap::Args)]
pub struct TrainArgs {
    #[command(flatten)]
    experiment: Experiment,
    /// Go on with the run in trainer.run_dir from its newest checkpoint
    #[arg(long)]
    resume: bool,
    /// Stop with everything saved when standard input ends, for programs that start this one
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
    /// Print the resolved configuration and stop
    #[arg(long)]
    print_config: bool,
    /// Overrides, for example rollout.group_size=8
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

pub fn run(args: TrainArgs, output: Output) -> Result<()> {
    let file = args.experiment.file(hopworld::TRAIN)?;
    let config = Config::load(Some(&file), &args.overrides)?;
    if args.print_config {
        write!(std::io::stdout(), "{}", toml::to_string(&config)?)?;
        return Ok(());
    }
    team::together(|place| train(&args, config, &file, place, output))
}

/// Trains as one of a team, whose first process alone speaks.
fn train(args: &TrainArgs, config: Config, file: &Path, place: Place, output: Output) -> Result<()> {
    let Place { team, local } = place;
    let output = if team.leads() { output } else { Output { quiet: true, json: false, ..output } };
    let device = device::open_local(&args.experiment.device, local)?;
    model::prefetch(&config, output)?;
    model::announce_memory(&estimate(&config, false)?, &args.experiment.device, output)?;
    let mut console = Console::new(output, config.trainer.total_steps)?;
    if args.until_stdin_ends {
        console.stop.or_stdin_ends();
    }
    let mut trainer = if args.resume {
        Trainer::resume(config.clone(), &device, team.clone())?
    } else {
        Trainer::start(config.clone(), &device, team.clone())?
    };
    let finished = trainer.run(&mut console)?;
    console.bars.clear();
    if !team.leads() {
        return Ok(());
    }
    // The run is saved; a report that cannot be written does not make it a failure.
    let report = report::write(trainer.run_dir().root(), None);
    if let Err(error) = &report {
        eprintln!("rex: no report: {error}");
    }
    if output.quiet || output.json {
        return Ok(());
    }
    let run = trainer.run_dir();
    if finished {
        return summary::print(run, report.ok().as_deref(), &config, file, &mut std::io::stdout());
    }
    let (run, report) =
        (run.root().display(), report.map_or(String::new(), |file| format!("\nReport: {}", file.display())));
    println!("\nStopped with everything saved in {run}. Go on with the same command and --resume.{report}");
    Ok(())
}

/// Shows a run on the terminal and takes Ctrl-C as "finish this step, save, stop".
struct Console {
    bars: Bars,
    output: Output,
    total_steps: usize,
    stop: Interrupt,
}

impl Console {
    fn new(output: Output, total_steps: usize) -> Result<Self> {
        Ok(Self { bars: Bars::new(output), output, total_steps, stop: interrupt::on_ctrl_c()? })
    }

    fn line(&mut self, metrics: &Metrics, text: String) {
        self.bars.clear();
        let text = match self.output {
            Output { json: true, .. } => serde_json::to_string(metrics).expect("numbers and strings"),
            Output { quiet: true, .. } => return,
            _ => text,
        };
        // A run goes on, and saves what it has, when nobody reads along any more.
        let _ = writeln!(std::io::stdout(), "{text}");
    }
}

impl Observer for Console {
    fn progress(&mut self, phase: Phase, done: usize, total: usize) {
        let name = match phase {
            Phase::Rollouts => "rollouts",
            Phase::Update => "update",
            Phase::Evaluation => "evaluation",
        };
        self.bars.show(name, done, total);
    }

    fn step(&mut self, metrics: &Metrics) {
        let get = |name: &str| metrics.get(name).unwrap_or(f64::NAN);
        let text = format!(
            "step {}/{}  reward {:.3}  em {:.3}  loss {:+.4}  kl {:.4}  alpha {:.3}  probes {:.0} (em {:.2})  \
             dead ends {:.2}  tokens {:.0}  {:.0}s",
            metrics.step(),
            self.total_steps,
            get("critic/rewards/mean"),
            get("rex/em"),
            get("actor/pg_loss"),
            get("actor/kl_loss"),
            get("rex/alpha"),
            get("rex/probes"),
            get("rex/probe_em"),
            get("rex/dead_end_rate"),
            get("response_length/mean"),
            get("timing_s/step"),
        );
        self.line(metrics, text);
    }

    fn warning(&mut self, warning: &Warning) {
        self.bars.clear();
        if !self.output.quiet {
            eprintln!("warning: {}\n  to try: {}", warning.message, warning.advice);
        }
    }

    fn evaluated(&mut self, step: usize, evaluation: &Evaluation) {
        let scores = &evaluation.overall;
        let text = format!(
            "evaluation at step {step}: EM {:.1}  F1 {:.1}  answered {:.1}  searches {:.2}  ({} questions)",
            100.0 * scores.em,
            100.0 * scores.f1,
            100.0 * scores.answered,
            scores.searches,
            scores.questions
        );
        self.line(&evaluation.metrics(step), text);
    }

    fn stop(&self) -> bool {
        self.stop.is_set()
    }
}
