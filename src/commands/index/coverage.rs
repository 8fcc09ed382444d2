//! `rex index coverage`: what of a question file the corpus, and its best passages, can answer.

use super::super::progress::Bars;
use crate::args::Output;
use crate::device;
use anyhow::{Context, Result};
use rex_rollout::retrieval::Bm25Index;
use rex_trainer::coverage::{Coverage, Found, coverage};
use rex_trainer::data::read_questions;
use rex_trainer::retrieval::{self, Method};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub struct CoverageArgs {
    /// Folder of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Device that an encoder runs on
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Question files
    #[arg(required = true, value_name = "QUESTIONS")]
    questions: Vec<PathBuf>,
}

pub fn run(args: CoverageArgs, output: Output) -> Result<()> {
    let index = Arc::new(Bm25Index::open(&args.index)?);
    let device = device::open(&args.device)?;
    let mut methods = vec![("bm25", Method::Bm25)];
    if retrieval::has_vectors(&args.index) {
        methods.extend([("dense", Method::Dense), ("hybrid", Method::Hybrid)]);
    }
    let mut retrievers = Vec::new();
    for (name, method) in methods {
        retrievers.push((name, retrieval::local(index.clone(), &args.index, method, &device)?));
    }
    let retrievers: Vec<_> = retrievers.iter().map(|(name, retriever)| (*name, retriever.as_ref())).collect();
    let files = args.questions.iter().map(|file| read_questions(file)).collect::<Result<Vec<_>, _>>()?;
    let mut bars = Bars::new(output);
    let covered = coverage(&index, &retrievers, &files, &mut |phase, done, total| {
        bars.show(phase, done, total);
    })?;
    bars.clear();
    let mut out = std::io::stdout();
    if !output.json {
        writeln!(out, "{HEAD}")?;
    }
    for (file, covered) in args.questions.iter().zip(covered) {
        let name = file.file_name().context("a question file has a name")?.to_string_lossy();
        if output.json {
            let mut line = serde_json::to_value(&covered)?;
            line["questions_file"] = name.into();
            writeln!(out, "{line}")?;
        } else {
            rows(&mut out, name.split('.').next().unwrap_or(&name), &covered)?;
        }
    }
    if !output.json && !output.quiet {
        writeln!(out, "{LEGEND}")?;
    }
    Ok(())
}

const HEAD: &str = "\
questions                      n  yes/no  in corpus  retriever  answer @3     @10   gold in  recall @3    @10  any @3   @10  all @3   @10";

const LEGEND: &str = "
in corpus: a right answer stands in some passage, as normalised words (yes/no questions aside); answer @k: in one of the best k
gold in: all supporting passages are in the corpus; of those questions, recall: the mean share of them among the best k; any, all:
questions with one, with every supporting passage among the best k";

fn rows(out: &mut impl Write, name: &str, covered: &Coverage) -> std::io::Result<()> {
    let Coverage { questions, yes_no, answer_in_corpus, gold_in_corpus, .. } = covered;
    for (retriever, found) in &covered.found {
        let Found { answer, recall, any, all } = found;
        write!(
            out,
            "{name:<25} {questions:>6}  {yes_no:>6}  {answer_in_corpus:>9}  {retriever:<9}  {:>9}  {:>6}",
            answer[0], answer[1]
        )?;
        if *gold_in_corpus > 0 {
            write!(
                out,
                "  {gold_in_corpus:>8}  {:>9.3}  {:>5.3}  {:>6} {:>5}  {:>6} {:>5}",
                recall[0], recall[1], any[0], any[1], all[0], all[1]
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}
