//! The loss of a batch and its gradient.

use super::example::Example;
use crate::config::TrainerConfig;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{Tensor, TensorData};
use rex_learner::passes;
use rex_model::Decoder;
use std::num::NonZero;

/// Mean cross-entropy over the learnt tokens of a batch, and what came with it.
pub(super) struct Learnt {
    pub(super) loss: f64,
    /// Share of the learnt tokens to which the model gave more than half of the probability.
    pub(super) accuracy: f64,
    /// Learnt tokens.
    pub(super) targets: usize,
    pub(super) gradients: GradientsParams,
}

/// `−Σ w log π(token) / Σ w` over the learnt tokens of the batch and their weights `w`, in passes of at most
/// `trainer.micro_batch_tokens` tokens, padding included; neither loss nor gradient depends on the split.
pub(super) fn learn(decoder: &Decoder, batch: &[Example], trainer: &TrainerConfig) -> Learnt {
    let targets: usize = batch.iter().map(Example::targets).sum();
    let total: f64 = batch.iter().flat_map(Example::weights).map(|&weight| f64::from(weight)).sum();
    let activations = trainer.activations();
    let pass = |decoder: &Decoder, examples: &Vec<&Example>| {
        let rows: Vec<&[u32]> = examples.iter().map(|example| example.ids()).collect();
        let learnt: Vec<Vec<bool>> = examples.iter().map(|example| example.learnt().collect()).collect();
        let pass = decoder.pass(&rows, &learnt, 1.0, activations);
        let log_probs = pass.log_probs();
        let [rows, width] = log_probs.dims();
        let mut weights = vec![0.0; rows * width];
        for (row, example) in weights.chunks_mut(width).zip(examples) {
            row[..example.ids().len()].copy_from_slice(example.weights());
        }
        let device = log_probs.device();
        let values: Vec<f32> = log_probs.into_data().try_to_vec().expect("log-probabilities are f32");
        let (mut loss, mut known) = (0.0, 0);
        for (&value, &weight) in values.iter().zip(&weights).filter(|(_, weight)| **weight > 0.0) {
            loss -= f64::from(weight) * f64::from(value) / total;
            known += usize::from(value > 0.5f32.ln());
        }
        let weights = Tensor::from_data(TensorData::new(weights, [rows, width]), &device);
        (loss, known, pass.backward(weights.div_scalar(-total)))
    };
    let mut gradients = GradientsAccumulator::new();
    let (mut loss, mut known) = (0.0, 0);
    let examples: Vec<&Example> = batch.iter().collect();
    let split = passes::split(&examples, |example| example.ids(), trainer.micro_batch_tokens);
    decoder.side_by_side(&split, NonZero::new(trainer.passes_at_once), pass, |part| {
        loss += part.0;
        known += part.1;
        gradients.accumulate(decoder, part.2);
    });
    Learnt { loss, accuracy: known as f64 / targets as f64, targets, gradients: gradients.grads() }
}
