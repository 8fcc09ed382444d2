//! The memory that a run will take, before anything is allocated.

use crate::config::{Config, ModelConfig, SftSource};
use crate::error::TrainError;
use crate::{hopworld, hub};
use rex_model::{Phase, TrainingPlan, passes_at_once};

/// What the largest phase of a training step takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Estimate(pub Phase);

/// Of a run under this configuration, if its transcripts are as long as `rollout.max_prompt_length` lets them be. A supervised run
/// has no reference, and generates only after its training.
///
/// # Errors
/// A model whose configuration cannot be read.
pub fn estimate(config: &Config, supervised: bool) -> Result<Estimate, TrainError> {
    let hopworld =
        supervised && config.sft.source == SftSource::Hopworld && config.model == ModelConfig::default();
    let model = if hopworld {
        hopworld::model::config()
    } else {
        rex_model::load_config(&hub::locate(config.model_path()?, &mut |_, _, _| {})?)?
    };
    let (lora, rollout) = (config.model.lora(), &config.rollout);
    let width = rollout.max_prompt_length;
    let parts = passes_at_once(model.num_parameters());
    let passes = match config.trainer.passes_at_once {
        0 => parts,
        passes => passes.min(rayon::current_num_threads()),
    };
    let plan = TrainingPlan {
        lora: lora.as_ref(),
        reference: !supervised && config.algorithm.kl_loss_coef > 0.0,
        activations: config.trainer.activations(),
        rows: (config.trainer.micro_batch_tokens / width).max(1),
        width,
        passes,
        generation: (!supervised).then_some((rollout.max_rows * parts, width)),
    };
    let largest = model.training_memory(&plan).into_iter().max_by_key(Phase::bytes);
    Ok(Estimate(largest.expect("a step has phases")))
}
