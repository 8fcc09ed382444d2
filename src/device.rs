//! The devices that were compiled in: the one place where back ends are named.

use anyhow::{Result, bail};
use burn::tensor::Device;

/// Back ends of this build.
pub const COMPILED: &[&str] = &[
    #[cfg(feature = "cpu")]
    "cpu",
];

/// Back ends that exist, each with the cargo feature that adds it.
const KNOWN: &[(&str, &str)] = &[("cpu", "cpu")];

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

/// Opens a device by its name on the command line.
pub fn open(name: &str) -> Result<Device> {
    match name {
        #[cfg(feature = "cpu")]
        "cpu" => Ok(Device::flex()),
        _ => match KNOWN.iter().find(|(known, _)| *known == name) {
            Some((_, feature)) => {
                bail!(
                    "this build has no device `{name}`: build one by `cargo build --release --features {feature}`"
                )
            }
            None => bail!("no device `{name}`; this build has: {}", COMPILED.join(", ")),
        },
    }
}
