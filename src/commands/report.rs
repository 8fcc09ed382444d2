//! `rex report`: a run as one HTML file.

use crate::args::Output;
use anyhow::Result;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// The run's folder
    run: PathBuf,
    /// The file to write; RUN/report.html when absent
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: ReportArgs, output: Output) -> Result<()> {
    let path = rex_trainer::report::write(&args.run, args.out.as_deref())?;
    if output.json {
        println!("{}", serde_json::json!({ "report": path }));
    } else if !output.quiet {
        println!("{}", path.display());
    }
    Ok(())
}
