//! Searches an index for every line of standard input, on one thread, and prints what that took.
//!
//! ```sh
//! cargo run --release --workspace --example search_speed -- INDEX K [IDS] < queries.txt
//! ```
//!
//! The passages' texts are fetched, as a rollout needs them. `IDS`: a file for the id of the best passage of each query.

use rex_rollout::retrieval::Bm25Index;
use std::fs;
use std::io::{BufRead, Write, stdin};
use std::path::Path;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, k, rest @ ..] = &arguments[..] else { return Err("search_speed INDEX K [IDS]".into()) };
    let index = Bm25Index::open(Path::new(folder))?;
    let k = k.parse()?;
    let queries = stdin().lock().lines().collect::<Result<Vec<_>, _>>()?;
    let mut ids = rest.first().map(fs::File::create).transpose()?;
    let mut times = Vec::with_capacity(queries.len());
    for query in &queries {
        let start = Instant::now();
        let passages = index.search(query, k)?;
        times.push(start.elapsed());
        if let Some(ids) = &mut ids {
            writeln!(ids, "{}", passages.first().map_or("", |passage| &passage.id))?;
        }
    }
    times.sort_unstable();
    let total: Duration = times.iter().sum();
    let percentile = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{} queries, {} passages: {:.0} a second; p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
        times.len(),
        index.len(),
        times.len() as f64 / total.as_secs_f64(),
        percentile(0.5),
        percentile(0.99),
        percentile(1.0)
    );
    // Linux only: what is ours (RssAnon), and what the system may take back at any time (RssFile, the mapped index).
    if let Ok(status) = fs::read_to_string("/proc/self/status") {
        status
            .lines()
            .filter(|line| line.starts_with("Rss") || line.starts_with("VmHWM"))
            .for_each(|line| println!("{line}"));
    }
    Ok(())
}
