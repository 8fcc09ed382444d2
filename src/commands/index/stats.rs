//! `rex index stats`: what an index holds and what it takes.

use crate::args::Output;
use anyhow::{Context, Result};
use rex_rollout::retrieval::Bm25Index;
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct StatsArgs {
    /// Folder of the index
    #[arg(value_name = "DIR")]
    index: PathBuf,
}

pub fn run(args: StatsArgs, output: Output) -> Result<()> {
    let index = Bm25Index::open(&args.index)?;
    let statistics = index.statistics();
    let texts = bytes(&args.index, &["store"])?;
    let vectors = bytes(&args.index, &["rex", "usearch"])?;
    let postings = bytes(&args.index, &["idx", "term", "lengths", "fast"])?;
    let passages = statistics.passages;
    let each = |count: u64| count as f64 / passages.max(1) as f64;
    let mut out = std::io::stdout();
    if output.json {
        let line = json!({
            "index": args.index, "passages": passages, "segments": statistics.segments, "terms": statistics.terms,
            "terms_a_passage": each(statistics.terms), "text_bytes": texts, "posting_bytes": postings, "vector_bytes": vectors,
            "bytes_a_passage": each(texts + postings + vectors),
        });
        writeln!(out, "{line}")?;
        return Ok(());
    }
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    writeln!(out, "passages   {passages} in {} segments", statistics.segments)?;
    writeln!(out, "terms      {} ({:.1} a passage)", statistics.terms, each(statistics.terms))?;
    writeln!(out, "texts      {:.1} MB, compressed ({:.0} bytes a passage)", megabytes(texts), each(texts))?;
    writeln!(out, "postings   {:.1} MB ({:.0} bytes a passage)", megabytes(postings), each(postings))?;
    if vectors > 0 {
        writeln!(out, "vectors    {:.1} MB ({:.0} bytes a passage)", megabytes(vectors), each(vectors))?;
    }
    Ok(())
}

/// Size of the files of an index with one of these extensions.
fn bytes(folder: &Path, extensions: &[&str]) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let file = entry.path();
        if file.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)) {
            bytes += entry.metadata()?.len();
        }
    }
    Ok(bytes)
}
