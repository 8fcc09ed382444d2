//! `rex index pack`: an index as one file.

use crate::args::Output;
use anyhow::{Context, Result};
use rex_rollout::retrieval::Bm25Index;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct PackArgs {
    /// Folder of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: PackArgs, output: Output) -> Result<()> {
    let bytes = Bm25Index::open(&args.index)?.to_bytes()?;
    std::fs::write(&args.out, &bytes).with_context(|| args.out.display().to_string())?;
    let mut out = std::io::stdout();
    if output.json {
        writeln!(out, "{}", json!({ "file": args.out, "bytes": bytes.len() }))?;
    } else {
        writeln!(out, "packed {} bytes: {}", bytes.len(), args.out.display())?;
    }
    Ok(())
}
