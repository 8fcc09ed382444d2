//! `rex compare`: one configuration under several algorithms and seeds, each an ordinary run, and their comparison.

mod children;
mod plan;
mod seeds;

use crate::args::{Experiment, Output};
use crate::commands::{interrupt, model};
use crate::hopworld;
use anyhow::{Result, bail};
use children::Children;
use plan::{Plan, Planned};
use rex_trainer::compare::{self, Arm, ArmError, BUILT_IN, Comparison};
use rex_trainer::config::Config;
use rex_trainer::quantity::{count, duration};
use rex_trainer::run_dir::replace_file;
use rex_trainer::{History, RunDir};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs that are finished are kept and runs that are not go on, so the same command can be stopped and started again, and
/// rewrites the tables when there is nothing left to train.
#[derive(Debug, clap::Args)]
#[command(after_help = arms_help())]
pub struct CompareArgs {
    #[command(flatten)]
    experiment: Experiment,
    /// Algorithms to compare; `all` for every one below
    #[arg(long, value_name = "ARM,ARM", value_delimiter = ',', default_values = ["rex", "grpo"])]
    arms: Vec<String>,
    /// An algorithm of your own, for example `warm:rollout.temperature=1.2`; may be given several times
    #[arg(long = "arm", value_name = "NAME:KEY=VALUE,KEY=VALUE", value_parser = Arm::parse)]
    own: Vec<Arm>,
    /// The arm that the others are compared with; grpo, where it takes part, when absent
    #[arg(long, value_name = "ARM")]
    baseline: Option<String>,
    /// 0..3 (which is 0,1,2), or 0,1,2
    #[arg(long, value_name = "SEEDS", default_value = "0..3", value_parser = seeds::parse)]
    seeds: seeds::Seeds,
    /// Runs at once, one core each; as many as there are cores when absent
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Folder of the runs (ARM/seed-N) and of compare.md, compare.html and compare.json
    #[arg(long, short, value_name = "DIR", default_value = "runs/compare")]
    out: PathBuf,
    /// Overrides for every arm, for example trainer.total_steps=60
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

fn arms_help() -> String {
    let lines = BUILT_IN.iter().map(|(name, about, _)| format!("\n  {name:<16} {about}"));
    format!("Arms:{}", lines.collect::<String>())
}

pub fn run(args: CompareArgs, output: Output) -> Result<()> {
    let arms = arms(&args)?;
    let baseline = args.baseline.as_deref().unwrap_or("grpo");
    if let Some(name) = &args.baseline
        && arms.iter().all(|arm| arm.name != *name)
    {
        return Err(ArmError::Baseline { name: name.clone() }.into());
    }
    let file = args.experiment.file(hopworld::TRAIN)?;
    let mut plan =
        Plan::new(&file, &args.experiment.device, &args.overrides, &args.out, &arms, &args.seeds.0)?;
    // Once, and not by all runs at the same time.
    model::prefetch(&Config::load(Some(&file), &args.overrides)?, output)?;
    let stop = interrupt::on_ctrl_c()?;
    let talks = !output.quiet && !output.json;
    let unfinished = plan.unfinished();
    if talks && unfinished > 0 {
        let all = plan.runs.len();
        println!(
            "{unfinished} of {all} runs to train, {} at a time, in {}",
            args.jobs().min(unfinished),
            args.out.display()
        );
    }
    let failures =
        Children::new(args.jobs(), output, stop.clone()).train(&mut plan, &mut |plan, index| {
            if talks {
                report(plan, &arms, index);
            }
        })?;

    let runs = plan.finished()?;
    if let Some(comparison) = compare::compare(&arms, &runs, baseline, &plan.questions) {
        write(&args.out, &comparison)?;
        if output.json {
            println!("{}", serde_json::to_string(&comparison)?);
        } else if !output.quiet {
            print(&comparison, &args.out);
        }
    } else if failures.is_empty() && !stop.is_set() {
        bail!(
            "no run has an evaluation: set data.val_files and trainer.test_freq, and delete {}",
            args.out.display()
        );
    }
    if !failures.is_empty() {
        bail!("{}", failed(&plan, &failures));
    }
    let left = plan.unfinished();
    if left > 0 && talks {
        println!("\nStopped with everything saved and {left} runs unfinished. Go on with the same command.");
    }
    Ok(())
}

impl CompareArgs {
    fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        // An accelerator is not divided into cores.
        let default = if self.experiment.device == "cpu" { cores } else { || 1 };
        self.jobs.unwrap_or_else(default).max(1)
    }
}

/// The arms asked for, in order; each once.
fn arms(args: &CompareArgs) -> Result<Vec<Arm>> {
    let mut arms = Vec::new();
    for name in &args.arms {
        match name.as_str() {
            "all" => arms.extend(
                BUILT_IN.iter().map(|(name, ..)| Arm::built_in(name)).collect::<Result<Vec<_>, _>>()?,
            ),
            name => arms.push(Arm::built_in(name)?),
        }
    }
    arms.extend(args.own.iter().cloned());
    for (place, arm) in arms.iter().enumerate() {
        if arms[..place].iter().any(|other| other.name == arm.name) {
            return Err(ArmError::Twice { name: arm.name.clone() }.into());
        }
    }
    Ok(arms)
}

/// One line on a run that has just finished.
fn report(plan: &Plan, arms: &[Arm], index: usize) {
    let Planned { arm, seed, dir, .. } = &plan.runs[index];
    let Ok(history) = RunDir::open(dir).and_then(|run| History::read(&run.metrics())) else { return };
    let em = history.em(rex_trainer::evaluate::ALL);
    let scores = match em.points() {
        [first, .., last] => format!("EM {:.1} -> {:.1}", 100.0 * first.1, 100.0 * last.1),
        _ => "no evaluation".to_string(),
    };
    println!(
        "{}/{} {}, seed {seed}: {scores}, {} tokens, {}",
        plan.runs.len() - plan.unfinished(),
        plan.runs.len(),
        arms[*arm].name,
        count(history.tokens(usize::MAX)),
        duration(history.seconds())
    );
}

fn write(out: &Path, comparison: &Comparison) -> Result<()> {
    let json = serde_json::to_string_pretty(comparison)?;
    replace_file(&out.join("compare.json"), json.as_bytes())?;
    replace_file(&out.join("compare.md"), compare::markdown(comparison).as_bytes())?;
    replace_file(&out.join("compare.html"), compare::html(comparison).as_bytes())?;
    Ok(())
}

/// The tables, in columns.
fn print(comparison: &Comparison, out: &Path) {
    for table in compare::tables(comparison).iter().filter(|table| table.title != "Arms") {
        println!("\n{}\n{}", console::style(&table.title).bold(), table.columns());
    }
    println!(
        "\nWritten: {}",
        ["compare.html", "compare.md", "compare.json"].map(|f| out.join(f).display().to_string()).join(", ")
    );
}

/// What failed, each message once.
fn failed(plan: &Plan, failures: &[(usize, String)]) -> String {
    let mut runs: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (index, message) in failures {
        runs.entry(message).or_default().push(plan.runs[*index].dir.display().to_string());
    }
    let lines = runs.iter().map(|(message, runs)| format!("\n{}: {message}", runs.join(", ")));
    format!(
        "{} of {} runs failed; the same command tries them again{}",
        failures.len(),
        plan.runs.len(),
        lines.collect::<String>()
    )
}
