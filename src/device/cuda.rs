//! NVIDIA GPUs.

use super::Found;
use anyhow::{Context, Result, bail};
use burn::tensor::Device;
use cudarc::driver::CudaContext;
use std::path::{Path, PathBuf};

/// Where a CUDA toolkit is looked for when `CUDA_PATH` is not set: the places that Burn knows.
const TOOLKITS: [&str; 4] = ["/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda", "/usr"];

/// Mathematical functions that kernels are linked with, within a toolkit.
const LIBDEVICE: &str = "nvvm/libdevice/libdevice.10.bc";

/// The device with this number; without one, the `process`-th, all over again where there are fewer.
pub fn open(number: Option<usize>, process: usize) -> Result<Device> {
    let count = count()?;
    let number = number.unwrap_or(process % count);
    if number >= count {
        bail!(
            "no device `cuda:{number}`: the driver shows {count}, numbered from 0 (see CUDA_VISIBLE_DEVICES)"
        );
    }
    Ok(Device::cuda(number))
}

pub fn found() -> Result<Vec<Found>> {
    (0..count()?).map(|number| describe(number).with_context(|| format!("device `cuda:{number}`"))).collect()
}

fn describe(number: usize) -> Result<Found> {
    let context = CudaContext::new(number)?;
    let (major, minor) = context.compute_capability()?;
    Ok(Found {
        device: format!("cuda:{number}"),
        name: context.name()?,
        driver: format!("CUDA, compute capability {major}.{minor}"),
        emulated: false,
        memory: Some(context.total_mem()? as u64),
        largest_tensor: None,
    })
}

/// How many devices there are; at least one. Burn panics where something is missing, so it is asked for before.
fn count() -> Result<usize> {
    #[expect(unsafe_code, reason = "it only tries to load the library, under each of its names")]
    let driver = unsafe { cudarc::driver::sys::is_culib_present() };
    if !driver {
        bail!(
            "device `cuda`: the NVIDIA driver's library (libcuda.so.1) is missing. Install the NVIDIA driver; in a container, \
             start it with access to the GPU (`docker run --gpus all`)"
        );
    }
    let count = match CudaContext::device_count() {
        Ok(count) => count as usize,
        Err(error) => {
            bail!("device `cuda`: the NVIDIA driver gives an error ({error}): does `nvidia-smi` show a GPU?")
        }
    };
    if count == 0 {
        bail!("device `cuda`: the NVIDIA driver shows no GPU (see CUDA_VISIBLE_DEVICES and `nvidia-smi`)");
    }
    let toolkit = std::env::var_os("CUDA_PATH").map(PathBuf::from);
    let there = match &toolkit {
        Some(toolkit) => toolkit.join(LIBDEVICE).is_file(),
        None => TOOLKITS.iter().any(|toolkit| Path::new(toolkit).join(LIBDEVICE).is_file()),
    };
    if !there {
        bail!(
            "device `cuda`: {LIBDEVICE} is in no CUDA toolkit ({}): kernels cannot be linked. Install the toolkit (its part \
             cuda-nvcc is enough) and set CUDA_PATH to its folder",
            toolkit.map_or(TOOLKITS.join(", "), |toolkit| toolkit.display().to_string()),
        );
    }
    Ok(count)
}
