//! What else could have followed: the likeliest tokens at every place of a text, and how unsure the model was there.

use burn::tensor::{DType, Tensor, TensorData};
use statrs::function::gamma::digamma;

use crate::decoder::Decoder;
use crate::log_probs::{ids, padded};

/// The `k` largest logits at one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternatives {
    /// Token ids, the likeliest first.
    pub ids: Vec<u32>,
    /// Their logits, at temperature 1.
    pub logits: Vec<f32>,
    /// Their log-probabilities over the full vocabulary at the temperature that was asked for.
    pub log_probs: Vec<f32>,
}

/// How unsure a model is of its next token (LogTokU, arXiv 2502.00290). Both numbers are computed from the `k` largest
/// logits taken as evidence of a Dirichlet distribution, `α_i = max(0, logit_i)`, `α_0 = Σ α_i`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Uncertainty {
    /// `−Σ (α_i/α_0)·(ψ(α_i + 1) − ψ(α_0 + 1))`, in nats, from 0 to the digamma form of `ln k`: several tokens would do as
    /// well. 0 without evidence.
    pub aleatoric: f64,
    /// `k / Σ (α_i + 1)`, from 0 to 1: the model has seen little like this. 1 without evidence.
    pub epistemic: f64,
}

impl Uncertainty {
    /// Of the largest logits at one place; at least one.
    pub fn of(top_logits: &[f32]) -> Self {
        let evidence: Vec<f64> = top_logits.iter().map(|&logit| f64::from(logit).max(0.0)).collect();
        let total: f64 = evidence.iter().sum();
        let epistemic = evidence.len() as f64 / (total + evidence.len() as f64);
        let share = |a: &f64| a / total * (digamma(a + 1.0) - digamma(total + 1.0));
        let aleatoric = if total == 0.0 { 0.0 } else { -evidence.iter().map(share).sum::<f64>() };
        Self { aleatoric, epistemic }
    }
}

impl Decoder {
    /// What could have stood in place of each of `ids[1..]`: the `k` likeliest tokens, with probabilities at `temperature`.
    pub fn alternatives(&self, ids: &[u32], k: usize, temperature: f64) -> Vec<Alternatives> {
        match self.top_logits(ids, k, temperature) {
            Some(values) => read(values.into_data(), k),
            None => Vec::new(),
        }
    }

    /// [`alternatives`](Self::alternatives) where the device must not be waited for: in the browser.
    ///
    /// # Panics
    /// If the device fails.
    pub async fn alternatives_async(&self, ids: &[u32], k: usize, temperature: f64) -> Vec<Alternatives> {
        match self.top_logits(ids, k, temperature) {
            Some(values) => read(values.into_data_async().await.expect("the device gives its results"), k),
            None => Vec::new(),
        }
    }

    /// `[places, 3k]`: ids (exact in f32 below 2^24), logits and log-probabilities. `None` where nothing follows anything.
    fn top_logits(&self, row: &[u32], k: usize, temperature: f64) -> Option<Tensor<2>> {
        let places = row.len().checked_sub(1).filter(|&places| places > 0)?;
        let device = self.device();
        let hidden = self.forward(padded(&[&row[..places]], places, &device), None);
        let [_, _, features] = hidden.dims();
        let hidden = hidden.reshape([places, features]);
        let chunks = self.chunks(places).map(|chunk| {
            let chunk: Vec<i32> = chunk.map(|place| place as i32).collect();
            let logits = self.logits(hidden.clone().select(0, ids(&chunk, &device))).cast(DType::F32);
            let scaled = logits.clone().div_scalar(temperature);
            let largest = scaled.clone().max_dim(1);
            let log_total = (scaled - largest.clone()).exp().sum_dim(1).log() + largest;
            let (logits, top) = logits.topk_with_indices(k, 1);
            let log_probs = logits.clone().div_scalar(temperature) - log_total;
            Tensor::cat(vec![top.cast(burn::tensor::FloatDType::F32), logits, log_probs], 1)
        });
        Some(Tensor::cat(chunks.collect(), 0))
    }
}

fn read(values: TensorData, k: usize) -> Vec<Alternatives> {
    let values = values.try_to_vec::<f32>().expect("results are f32");
    let place = |row: &[f32]| Alternatives {
        ids: row[..k].iter().map(|&id| id as u32).collect(),
        logits: row[k..2 * k].to_vec(),
        log_probs: row[2 * k..].to_vec(),
    };
    values.chunks_exact(3 * k).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: `ψ(n + 1) = ψ(n) + 1/n`.
    #[test]
    fn uncertainty_is_that_of_the_paper() {
        let check = |logits: &[f32], aleatoric: f64, epistemic: f64| {
            let found = Uncertainty::of(logits);
            assert!((found.aleatoric - aleatoric).abs() < 1e-9, "{logits:?}: {found:?}");
            assert!((found.epistemic - epistemic).abs() < 1e-9, "{logits:?}: {found:?}");
        };
        check(&[1.0], 0.0, 0.5);
        // ψ(3) − ψ(2) = 1/2.
        check(&[1.0, 1.0], 0.5, 0.5);
        // −(2/3)(ψ(3) − ψ(4)) − (1/3)(ψ(2) − ψ(4)) = (2/3)(1/3) + (1/3)(1/2 + 1/3).
        check(&[2.0, 1.0], 0.5, 2.0 / 5.0);
        check(&[2.0, 1.0, -7.0], 0.5, 3.0 / 6.0);
        check(&[-1.0, -2.0], 0.0, 1.0);
    }
}
