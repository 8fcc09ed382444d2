//! `rex index search`: queries from the command line or standard input.

use crate::args::Output;
use crate::device;
use anyhow::Result;
use rex_rollout::retrieval::{Bm25Index, Passage};
use rex_trainer::retrieval::{self, Method};
use serde_json::json;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub struct SearchArgs {
    /// Folder of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// How: bm25, dense or hybrid; the latter two need an index built with --encoder
    #[arg(long, default_value = "bm25")]
    method: Method,
    /// Device that an encoder runs on
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Passages for each query
    #[arg(long, default_value_t = 3, value_name = "K")]
    topk: usize,
    /// Queries, each one argument; without any, one a line from standard input (a line may be a JSON string)
    #[arg(value_name = "QUERY")]
    queries: Vec<String>,
}

pub fn run(args: SearchArgs, output: Output) -> Result<()> {
    let index = Arc::new(Bm25Index::open(&args.index)?);
    let retriever = retrieval::local(index, &args.index, args.method, &device::open(&args.device)?)?;
    let mut out = std::io::stdout().lock();
    let mut answer = |query: &str| -> Result<()> {
        let passages = retriever.retrieve(&[query], args.topk)?.concat();
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
        writeln!(out, "     nothing found")?;
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
