//! `rex export`: a run's newest checkpoint as a Hugging Face folder, or its adapters as a PEFT folder, with a model card.

use crate::args::Output;
use anyhow::{Context, Result, bail};
use rex_trainer::card::card;
use rex_trainer::{RunDir, checkpoint};
use std::fs;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The run's folder
    run: PathBuf,
    /// The folder to write; must not exist
    #[arg(long, short, value_name = "DIR")]
    out: PathBuf,
    /// The adapters alone, as PEFT keeps them, instead of the weights with the adapters merged in
    #[arg(long)]
    adapter: bool,
}

pub fn run(args: ExportArgs, output: Output) -> Result<()> {
    if args.out.exists() {
        bail!("{} exists: name a folder that does not", args.out.display());
    }
    let run = RunDir::open(&args.run)?;
    let Some(checkpoint) = checkpoint::latest(&run)? else {
        bail!("{} has no checkpoint yet", args.run.display());
    };
    let source = if args.adapter { checkpoint.join(checkpoint::ADAPTER) } else { checkpoint };
    if !source.is_dir() {
        bail!("{}: no adapters here; the run trained the weights (model.lora_rank = 0)", source.display());
    }
    let aside = args.out.with_added_extension("partial");
    fs::create_dir_all(&aside).with_context(|| aside.display().to_string())?;
    for entry in fs::read_dir(&source)? {
        let file = entry?.path();
        if file.is_file() {
            let name = file.file_name().expect("a listed file has a name");
            fs::copy(&file, aside.join(name)).with_context(|| file.display().to_string())?;
        }
    }
    // The weights are what was asked for; without a card they are still good.
    match card(&run, args.adapter) {
        Ok(card) => fs::write(aside.join("README.md"), card).with_context(|| aside.display().to_string())?,
        Err(error) => eprintln!("rex: no model card: {error}"),
    }
    fs::rename(&aside, &args.out).with_context(|| args.out.display().to_string())?;
    if !output.quiet {
        println!("{} -> {}", source.display(), args.out.display());
    }
    Ok(())
}
