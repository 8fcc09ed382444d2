//! What a run trains of its model: the weights, or adapters on them.

use crate::checkpoint;
use crate::config::{Config, ModelConfig};
use crate::error::TrainError;
use crate::optimizer::number_parameters;
use rex_model::Decoder;
use std::path::Path;

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
