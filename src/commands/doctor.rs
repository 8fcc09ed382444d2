//! `rex doctor`: what this build and this machine can do.

use crate::args::Output;
use crate::device::{self, Found};
use anyhow::Result;
use burn::tensor::{Device, Distribution, FloatDType, Tensor};
use serde_json::json;
use std::io::Write;
use std::time::Instant;

#[derive(Debug, clap::Args)]
pub struct DoctorArgs {}

/// A back end of this build: its devices, or why there are none.
struct BackEnd {
    name: &'static str,
    devices: Result<Vec<Examined>>,
}

/// A device and what was measured on it.
struct Examined {
    found: Found,
    /// Types that numbers can be computed in.
    precisions: Vec<&'static str>,
    /// Of matrix products in f32; not of emulated devices, where it takes minutes to find the fastest kernel.
    gflops: Option<f64>,
}

pub fn run(_: DoctorArgs, output: Output) -> Result<()> {
    let cores = std::thread::available_parallelism()?.get();
    let memory = sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::everything()),
    )?;
    let (available, total) = (gib(memory.available_memory()), gib(memory.total_memory()));
    let back_ends = device::COMPILED.iter().map(|name| BackEnd { name, devices: examine(name) });
    let back_ends: Vec<BackEnd> = back_ends.collect();
    let mut out = std::io::stdout();
    if output.json {
        let report = json!({
            "version": env!("CARGO_PKG_VERSION"), "cores": cores, "memory_gib": total, "available_gib": available,
            "back_ends": back_ends.iter().map(BackEnd::json).collect::<Vec<_>>(),
        });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(out, "rex {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "cores    {cores}")?;
    writeln!(out, "memory   {available:.1} GiB free of {total:.1} GiB")?;
    for back_end in back_ends {
        match back_end.devices {
            Ok(devices) => devices.iter().try_for_each(|device| device.print(&mut out))?,
            Err(error) => writeln!(out, "{:<8} none: {error:#}", back_end.name)?,
        }
    }
    Ok(())
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

fn examine(back_end: &str) -> Result<Vec<Examined>> {
    let examined = device::found(back_end)?.into_iter().map(|found| {
        let device = device::open(&found.device)?;
        let types = [("f32", FloatDType::F32), ("bf16", FloatDType::BF16), ("f16", FloatDType::F16)];
        let precisions = types.into_iter().filter(|&(_, dtype)| device.supports_dtype(dtype));
        Ok(Examined {
            precisions: precisions.map(|(name, _)| name).collect(),
            gflops: (!found.emulated).then(|| gflops(&device)),
            found,
        })
    });
    examined.collect()
}

impl BackEnd {
    fn json(&self) -> serde_json::Value {
        match &self.devices {
            Ok(devices) => {
                json!({"name": self.name, "devices": devices.iter().map(Examined::json).collect::<Vec<_>>()})
            }
            Err(error) => json!({"name": self.name, "devices": [], "error": format!("{error:#}")}),
        }
    }
}

impl Examined {
    fn json(&self) -> serde_json::Value {
        let Found { device, name, driver, emulated, memory, largest_tensor } = &self.found;
        json!({
            "device": device, "name": name, "driver": driver, "emulated": emulated, "memory_bytes": memory,
            "largest_tensor_bytes": largest_tensor, "precisions": self.precisions, "gflops": self.gflops,
            "lacks": self.lacks(),
        })
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let Found { device, name, driver, memory, .. } = &self.found;
        writeln!(out, "{device:<8} {name} ({driver})")?;
        let memory = memory.map(|bytes| format!("{:.1} GiB of memory", gib(bytes)));
        let speed = self.gflops.map(|gflops| format!("{gflops:.0} GFLOP/s in f32 matrix products"));
        let precisions = Some(format!("computes in {}", self.precisions.join(", ")));
        let facts: Vec<String> = [memory, speed, precisions].into_iter().flatten().collect();
        writeln!(out, "         {}", facts.join("; "))?;
        self.lacks().iter().try_for_each(|lack| writeln!(out, "         - {lack}"))
    }

    /// What the device cannot do, and what that means.
    fn lacks(&self) -> Vec<String> {
        let Found { emulated, largest_tensor, .. } = &self.found;
        let emulated = emulated.then(|| {
            "a processor that emulates a GPU: good for tests, far slower than the device cpu; install the driver of your GPU"
                .to_string()
        });
        let largest_tensor = largest_tensor.map(|bytes| {
            format!(
                "a tensor has at most {:.2} GiB, so models fit whose vocab_size x hidden_size is below {} million in f32 \
                 (Qwen2.5-0.5B: 136, 1.5B: 233, 3B: 311)",
                gib(bytes),
                bytes / 4 / 1_000_000,
            )
        });
        let precisions = ["bf16", "f16"].into_iter().filter(|name| !self.precisions.contains(name));
        let precisions = precisions.map(|name| format!("no {name}: model.precision = \"{name}\" is refused"));
        emulated.into_iter().chain(largest_tensor).chain(precisions).collect()
    }
}

/// Measured on a product of two 1,024 x 1,024 matrices: 2 · 1024³ operations.
fn gflops(device: &Device) -> f64 {
    const SIDE: usize = 1024;
    let matrix = || Tensor::<2>::random([SIDE, SIDE], Distribution::Default, device);
    let (a, b) = (matrix(), matrix());
    let product = || a.clone().matmul(b.clone()).slice([0..1, 0..1]).into_scalar::<f32>();
    product();
    let start = Instant::now();
    product();
    2.0 * (SIDE as f64).powi(3) / start.elapsed().as_secs_f64() / 1e9
}
