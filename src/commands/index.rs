//! `rex index`: a BM25 index over a corpus.

use super::progress::Bars;
use crate::args::Output;
use anyhow::{Context, Result};
use rex_rollout::retrieval::{Bm25Index, IndexBuilder, Passage};
use rex_trainer::data::Corpus;
use serde_json::json;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub struct IndexArgs {
    #[command(subcommand)]
    command: IndexCommand,
}

#[derive(Debug, clap::Subcommand)]
enum IndexCommand {
    /// Index a corpus: JSONL of `id` and `contents`, plain or gzipped
    Build(BuildArgs),
    /// Write an index as one file, which the browser demo opens in memory
    Pack(PackArgs),
    /// Search an index; the queries are plain text, without syntax
    Search(SearchArgs),
}

#[derive(Debug, clap::Args)]
struct BuildArgs {
    /// Corpus files, indexed in this order
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    corpus: Vec<PathBuf>,
    /// Folder of the index; an index that it holds is replaced when the new one is complete
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
struct PackArgs {
    /// Folder of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// File to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, clap::Args)]
struct SearchArgs {
    /// Folder of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Passages for each query
    #[arg(long, default_value_t = 3, value_name = "K")]
    topk: usize,
    /// Queries, each one argument; without any, one a line from standard input (a line may be a JSON string)
    #[arg(value_name = "QUERY")]
    queries: Vec<String>,
}

pub fn run(args: IndexArgs, output: Output) -> Result<()> {
    match args.command {
        IndexCommand::Build(args) => build(args, output),
        IndexCommand::Pack(args) => pack(args, output),
        IndexCommand::Search(args) => search(args, output),
    }
}

fn build(args: BuildArgs, output: Output) -> Result<()> {
    /// Documents between two looks at the progress.
    const STRIDE: usize = 1024;
    let start = Instant::now();
    // All files are opened before the work begins: a wrong name at the end of the list is told at once.
    let mut corpora = args.corpus.iter().map(|file| Corpus::open(file)).collect::<Result<Vec<_>, _>>()?;
    let size = |file: &PathBuf| file.metadata().map_or(0, |metadata| metadata.len());
    let total: u64 = args.corpus.iter().map(size).sum();
    let megabytes = |bytes: u64| (bytes / 1_000_000) as usize;

    let mut bars = Bars::new(output);
    let mut builder = IndexBuilder::create(&args.out)?;
    let mut before = 0;
    for corpus in &mut corpora {
        for count in 0.. {
            let Some(document) = corpus.next() else { break };
            builder.add(document?)?;
            if count % STRIDE == 0 {
                bars.show("reading (MB)", megabytes(before + corpus.bytes_read()), megabytes(total));
            }
        }
        before += corpus.bytes_read();
    }
    bars.show("writing", 0, 1);
    let index = builder.finish()?;
    bars.clear();

    let (passages, seconds) = (index.len(), start.elapsed().as_secs_f64());
    let mut out = std::io::stdout();
    if output.json {
        writeln!(out, "{}", json!({ "index": args.out, "passages": passages, "seconds": seconds }))?;
    } else {
        writeln!(out, "indexed {passages} passages in {seconds:.1} s: {}", args.out.display())?;
    }
    Ok(())
}

fn pack(args: PackArgs, output: Output) -> Result<()> {
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

fn search(args: SearchArgs, output: Output) -> Result<()> {
    let index = Bm25Index::open(&args.index)?;
    let mut out = std::io::stdout().lock();
    let mut answer = |query: &str| -> Result<()> {
        let passages = index.search(query, args.topk)?;
        if output.json {
            print_json(&mut out, query, &passages)
        } else {
            print_text(&mut out, query, &passages)
        }
    };
    if !args.queries.is_empty() {
        return args.queries.iter().try_for_each(|query| answer(query));
    }
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        answer(&query_of(&line))?;
        line.clear();
    }
    Ok(())
}

/// A line of input is a query as it stands, or the JSON string that it is: the way to give one with line breaks.
fn query_of(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    serde_json::from_str(text).unwrap_or_else(|_| text.to_string())
}

fn print_json(out: &mut impl Write, query: &str, passages: &[Passage]) -> Result<()> {
    let result: Vec<_> = passages
        .iter()
        .map(|passage| {
            json!({ "document": { "id": passage.id, "contents": passage.contents }, "score": passage.score })
        })
        .collect();
    Ok(writeln!(out, "{}", json!({ "query": query, "result": result }))?)
}

fn print_text(out: &mut impl Write, query: &str, passages: &[Passage]) -> Result<()> {
    /// Characters of the query and of a passage that are shown.
    const SHOWN: usize = 200;
    let short = |text: &str| -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(SHOWN).collect()
    };
    writeln!(out, "? {}", short(query))?;
    for (rank, passage) in passages.iter().enumerate() {
        writeln!(
            out,
            "{:>3}. {:>6.2}  {}  (id {})",
            rank + 1,
            passage.score,
            short(passage.title()),
            passage.id
        )?;
        writeln!(out, "             {}", short(passage.text()))?;
    }
    if passages.is_empty() {
        writeln!(out, "     no passage holds a term of it")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_query() {
        let check = |line: &str, expected: &str| assert_eq!(query_of(line.as_bytes()), expected);
        check("who was Ur?\n", "who was Ur?");
        check("who was Ur?\r\n", "who was Ur?");
        check("\"two\\nlines\"\n", "two\nlines");
        check("\"unclosed phrase\n", "\"unclosed phrase");
        check("\"a\" \"b\"", "\"a\" \"b\"");
        check("\n", "");
        check("null", "null");
        check("17", "17");
        assert_eq!(query_of(b"caf\xe9\n"), "caf\u{fffd}");
    }
}
