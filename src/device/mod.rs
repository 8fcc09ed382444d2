//! The devices that were compiled in: the one place where back ends are named.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(feature = "wgpu")]
mod wgpu;

use anyhow::{Context, Result, bail};
use burn::tensor::Device;

/// Back ends of this build.
pub const COMPILED: &[&str] = &[
    #[cfg(feature = "cpu")]
    "cpu",
    #[cfg(feature = "wgpu")]
    "wgpu",
    #[cfg(feature = "cuda")]
    "cuda",
];

/// Back ends that exist. Each is added by the cargo feature of its name.
const KNOWN: &[&str] = &["cpu", "wgpu", "cuda"];

/// Bytes that are free for a run on a device, where it can be told; a container's limit counts.
pub fn free_memory(name: &str) -> Option<u64> {
    if name != "cpu" {
        return None;
    }
    let memory = sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::everything());
    let system = sysinfo::System::new_with_specifics(memory).ok()?;
    let limit = system.cgroup_limits().map_or(u64::MAX, |limits| limits.free_memory);
    Some(system.available_memory().min(limit))
}

/// Opens a device by its name on the command line: a back end, or one of its devices by number, as in `cuda:1`.
///
/// # Errors
/// What is missing, in the build or on the machine, and what to do about it.
pub fn open(name: &str) -> Result<Device> {
    open_local(name, 0)
}

/// [`open`] for the process of this number on the machine: where no number is in the name, processes take a CUDA device each.
///
/// # Errors
/// As `open`.
#[cfg_attr(not(feature = "cuda"), expect(unused_variables, reason = "the other back ends have one device"))]
pub fn open_local(name: &str, process: usize) -> Result<Device> {
    let (back_end, number) = match name.split_once(':') {
        None => (name, None),
        Some((back_end, number)) => {
            let number: usize = number
                .parse()
                .with_context(|| format!("no device `{name}`: a number follows the colon, as in cuda:1"))?;
            (back_end, Some(number))
        }
    };
    match back_end {
        #[cfg(feature = "cpu")]
        "cpu" => match number {
            None => Ok(Device::flex()),
            Some(_) => bail!("no device `{name}`: all cores are one device, cpu"),
        },
        #[cfg(feature = "wgpu")]
        "wgpu" => wgpu::open(number),
        #[cfg(feature = "cuda")]
        "cuda" => cuda::open(number, process),
        _ if KNOWN.contains(&back_end) => {
            bail!(
                "this build has no device `{name}`: build one by `cargo build --release --features {back_end}`"
            )
        }
        _ => bail!("no device `{name}`; this build has: {}", COMPILED.join(", ")),
    }
}

/// One device of a back end, as `rex doctor` tells of it.
#[derive(Debug)]
pub struct Found {
    /// What `--device` calls it.
    pub device: String,
    /// Of the hardware; of the driver and the interface to it.
    pub name: String,
    pub driver: String,
    /// A processor that plays the part of a GPU.
    pub emulated: bool,
    /// Bytes of its own memory, where they can be read.
    pub memory: Option<u64>,
    /// Bytes of the largest tensor, where that is less than the memory.
    pub largest_tensor: Option<u64>,
}

/// What a back end finds on this machine.
///
/// # Errors
/// As [`open`].
pub fn found(back_end: &str) -> Result<Vec<Found>> {
    match back_end {
        #[cfg(feature = "wgpu")]
        "wgpu" => wgpu::found(),
        #[cfg(feature = "cuda")]
        "cuda" => cuda::found(),
        _ => Ok(vec![Found {
            device: back_end.to_string(),
            name: std::env::consts::ARCH.to_string(),
            driver: "none needed".to_string(),
            emulated: false,
            memory: None,
            largest_tensor: None,
        }]),
    }
}
