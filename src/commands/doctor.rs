//! `rex doctor`: what this build and this machine can do.

use crate::args::Output;
use crate::device;
use anyhow::Result;
use burn::tensor::{Distribution, Tensor};
use serde_json::json;
use std::io::Write;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub struct DoctorArgs {}

pub fn run(_: DoctorArgs, output: Output) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let memory = sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::everything()),
    )?;
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let mut devices = Vec::new();
    for name in device::COMPILED {
        devices.push((name, gflops(name)?));
    }
    let mut out = std::io::stdout();
    if output.json {
        let devices: Vec<_> = devices.iter().map(|(name, g)| json!({"name": name, "gflops": g})).collect();
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"), "cores": cores, "devices": devices,
            "memory_gib": gib(memory.total_memory()), "available_gib": gib(memory.available_memory()),
        });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(out, "rex {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "cores    {cores}")?;
    let (available, total) = (gib(memory.available_memory()), gib(memory.total_memory()));
    writeln!(out, "memory   {available:.1} GiB free of {total:.1} GiB")?;
    for (name, gflops) in devices {
        writeln!(out, "device   {name}: {gflops:.0} GFLOP/s in f32 matrix products")?;
    }
    Ok(())
}

/// Measured on a product of two 1,024 x 1,024 matrices: 2 · 1024³ operations.
fn gflops(name: &str) -> Result<f64> {
    const SIDE: usize = 1024;
    let device = device::open(name)?;
    let matrix = || Tensor::<2>::random([SIDE, SIDE], Distribution::Default, &device);
    let (a, b) = (matrix(), matrix());
    let product = || a.clone().matmul(b.clone()).slice([0..1, 0..1]).into_scalar::<f32>();
    product();
    let start = Instant::now();
    product();
    Ok(2.0 * (SIDE as f64).powi(3) / start.elapsed().as_secs_f64() / 1e9)
}
