//! `rex index build`: a corpus becomes an index.

use super::super::progress::Bars;
use crate::args::Output;
use crate::device;
use anyhow::Result;
use rex_rollout::retrieval::IndexBuilder;
use rex_trainer::data::Corpus;
use rex_trainer::retrieval;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub struct BuildArgs {
    /// Corpus files, indexed in this order
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    corpus: Vec<PathBuf>,
    /// Folder of the index; an index that it holds is replaced when the new one is complete
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Folder of a sentence encoder (BERT family): also makes a vector of each passage, for dense and hybrid search
    #[arg(long, value_name = "DIR")]
    encoder: Option<PathBuf>,
    /// Also a graph over the vectors: dense search looks at few of them instead of all, and may miss one (for millions)
    #[arg(long, requires = "encoder")]
    approximate: bool,
    /// Device that the encoder runs on
    #[arg(long, default_value = "cpu")]
    device: String,
}

pub fn run(args: BuildArgs, output: Output) -> Result<()> {
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
    if let Some(encoder) = &args.encoder {
        let device = device::open(&args.device)?;
        let total = index.len() as usize;
        retrieval::write_vectors(&args.out, &index, encoder, &device, &mut |done| {
            bars.show("encoding", done, total);
        })?;
        if args.approximate {
            retrieval::write_graph(&args.out, &index, &mut |done| bars.show("linking", done, total))?;
        }
    }
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
