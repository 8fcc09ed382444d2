//! What a run trains of its model: the weights, or adapters on them.

use crate::checkpoint;
use crate::config::{Config, ModelConfig, Precision};
use crate::error::TrainError;
use burn::tensor::{Device, FloatDType};
use rex_learner::optimizer::number_parameters;
use rex_model::{Decoder, LoadedModel};
use std::path::Path;

/// A model that computes as it is configured to. On a device that records no gradients it is ready to generate.
///
/// # Errors
/// Files that are no model; a precision that the device lacks, or that does not do for training.
pub fn load(path: &Path, config: &ModelConfig, device: &Device) -> Result<LoadedModel, TrainError> {
    let refused = |message| TrainError::Precision { message };
    let dtype = match config.precision {
        Precision::F32 => FloatDType::F32,
        Precision::Bf16 => FloatDType::BF16,
        Precision::F16 if device.is_autodiff() => {
            return Err(refused(
                "f16 does not train: the gradient of a token, in a batch of thousands, is below what it can hold; take \
                 bf16 or f32",
            ));
        }
        Precision::F16 => FloatDType::F16,
    };
    if !device.supports_dtype(dtype) {
        return Err(refused(
            "this device does not compute in it (`rex doctor` lists what it does): take f32",
        ));
    }
    let model = rex_model::load(path, device)?;
    let decoder = model.decoder.computing_in(dtype);
    let decoder = if device.is_autodiff() { decoder } else { decoder.frozen() };
    Ok(LoadedModel { decoder, ..model })
}

/// Where a run's weights are: in its newest checkpoint, but at their start where adapters are trained, which freeze them.
pub(crate) fn weights<'p>(config: &ModelConfig, start: &'p Path, checkpoint: Option<&'p Path>) -> &'p Path {
    checkpoint.filter(|_| config.lora_rank == 0).unwrap_or(start)
}

/// Adds the adapters that are configured, as the checkpoint has them, and numbers the parameters for the optimizer.
pub(crate) fn prepare(
    decoder: Decoder,
    config: &Config,
    checkpoint: Option<&Path>,
) -> Result<Decoder, TrainError> {
    let Some(lora) = config.model.lora() else { return Ok(number_parameters(decoder)) };
    let fresh = decoder.with_adapters(&lora, config.trainer.seed);
    let decoder = match checkpoint {
        Some(folder) => checkpoint::load_adapter(folder, fresh)?,
        None => fresh,
    };
    Ok(number_parameters(decoder))
}
