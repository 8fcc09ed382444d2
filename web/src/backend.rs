//! The back end of this bundle: the one place that names it.

use burn::tensor::Device;

#[cfg(feature = "cpu")]
pub(crate) const NAME: &str = "cpu";

#[cfg(feature = "webgpu")]
pub(crate) const NAME: &str = "webgpu";

/// # Errors
/// What the browser says of its adapter.
#[cfg(feature = "cpu")]
pub(crate) async fn open() -> Result<Device, String> {
    Ok(Device::flex())
}

/// # Errors
/// What the browser says of its adapter.
#[cfg(feature = "webgpu")]
pub(crate) async fn open() -> Result<Device, String> {
    Device::wgpu_options().init_async().await.map_err(|error| error.to_string())
}
