//! GPUs through Vulkan, Metal, DirectX 12 or OpenGL.

use super::Found;
use anyhow::{Result, anyhow};
use burn::tensor::wgpu::wgpu::{Adapter, DeviceType as Hardware};
use burn::tensor::wgpu::{WgpuInitError, WgpuSetup};
use burn::tensor::{Device, DeviceType};
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

/// The device with this number in [`found`]; the fastest without one.
pub fn open(number: Option<usize>) -> Result<Device> {
    let (fastest, _) = fastest()?;
    let Some(number) = number else { return Ok(fastest.clone()) };
    let devices = Device::enumerate(DeviceType::Wgpu);
    let count = devices.len();
    devices
        .into_iter()
        .nth(number)
        .ok_or_else(|| anyhow!("no device `wgpu:{number}`: there are {count}, `rex doctor` lists them"))
}

/// The adapters of the interface that Burn settled on, in its order.
pub fn found() -> Result<Vec<Found>> {
    let (_, setup) = fastest()?;
    let adapters = ready(setup.instance.enumerate_adapters(setup.backend.into()));
    Ok(adapters.iter().enumerate().map(|(number, adapter)| describe(number, adapter)).collect())
}

fn describe(number: usize, adapter: &Adapter) -> Found {
    let (info, limits) = (adapter.get_info(), adapter.limits());
    Found {
        device: format!("wgpu:{number}"),
        name: info.name,
        driver: format!("{:?}, {} {}", info.backend, info.driver, info.driver_info).trim_end().to_string(),
        emulated: info.device_type == Hardware::Cpu,
        memory: None,
        largest_tensor: Some(limits.max_storage_buffer_binding_size.min(limits.max_buffer_size)),
    }
}

/// The adapter that Burn takes by itself, with the handles that it was opened with, once a process.
fn fastest() -> Result<&'static (Device, WgpuSetup)> {
    static OPENED: OnceLock<Result<(Device, WgpuSetup), WgpuInitError>> = OnceLock::new();
    OPENED.get_or_init(|| Device::wgpu_options().init_with_setup()).as_ref().map_err(|error| match error {
        WgpuInitError::AdapterUnavailable { .. } => anyhow!(
            "device `wgpu`: no GPU was found. Install the driver of your GPU; on Linux its Vulkan driver, for AMD and Intel \
             mesa-vulkan-drivers, for NVIDIA the proprietary one (`vulkaninfo --summary` lists what there is)"
        ),
        other => anyhow!("device `wgpu`: {other}"),
    })
}

/// What a future that waits for nothing gives: wgpu's are asynchronous for the sake of browsers.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("native adapters are listed at once"),
    }
}
