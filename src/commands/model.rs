//! The model of a command: found, fetched if it is only on the Hub, and weighed before a run.

use super::progress::Bars;
use crate::args::Output;
use crate::device;
use anyhow::Result;
use rex_trainer::config::Config;
use rex_trainer::{Estimate, hub};
use serde_json::{Map, json};
use std::io::Write;
use std::path::PathBuf;

/// The folder or file of the configured model, fetched with a progress bar where it is named by an id of the Hub.
pub fn locate(config: &Config, output: Output) -> Result<PathBuf> {
    let mut bars = Bars::new(output);
    let megabytes = |bytes: u64| bytes.div_ceil(1_000_000) as usize;
    let path = hub::locate(config.model_path()?, &mut |file, done, total| {
        bars.show(&format!("{file}, MB"), megabytes(done), megabytes(total));
    })?;
    bars.clear();
    Ok(path)
}

/// Fetches the configured model, if there is one, so that whoever loads it finds it.
pub fn prefetch(config: &Config, output: Output) -> Result<()> {
    if config.model.path.as_os_str().is_empty() { Ok(()) } else { locate(config, output).map(drop) }
}

/// Says what memory a run will take, and warns where the device has less.
pub fn announce_memory(estimate: &Estimate, device: &str, output: Output) -> Result<()> {
    let Estimate(phase) = estimate;
    let available = device::free_memory(device);
    let gigabytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1e9);
    if output.json {
        let parts: Map<String, _> =
            phase.parts.iter().map(|(part, bytes)| (part.to_string(), json!(bytes))).collect();
        let memory =
            json!({"phase": phase.name, "bytes": phase.bytes(), "parts": parts, "available": available});
        writeln!(std::io::stdout(), "{}", json!({ "memory_estimate": memory }))?;
    } else if !output.quiet {
        let parts: Vec<String> =
            phase.parts.iter().map(|(part, bytes)| format!("{part} {}", gigabytes(*bytes))).collect();
        let free = available.map_or(String::new(), |bytes| format!("; {} GB free", gigabytes(bytes)));
        let (total, parts) = (gigabytes(phase.bytes()), parts.join(", "));
        writeln!(std::io::stdout(), "memory: at most about {total} GB, while {}: {parts}{free}", phase.name)?;
    }
    if let Some(available) = available.filter(|&available| phase.bytes() > available)
        && !output.quiet
    {
        eprintln!(
            "warning: this run may need {} GB, and {} GB are free\n  to try: trainer.gradient_checkpointing=true, \
             model.lora_rank=8, or a smaller trainer.micro_batch_tokens, rollout.max_rows or rollout.max_prompt_length",
            gigabytes(phase.bytes()),
            gigabytes(available)
        );
    }
    Ok(())
}
