//! From a value per token to one number per mini-batch.
//!
//! The denominators belong to the whole mini-batch ([`BatchTotals`]) and the tensors to a part of it, so the results
//! of the parts, and their gradients, simply add up: how a mini-batch is split, padded or ordered cannot matter.

use burn::tensor::{Bool, Tensor};
use serde::{Deserialize, Serialize};

/// verl's guard in the token mean; it also makes 0 of a batch without tokens.
const EPSILON: f64 = 1e-8;

/// How tokens are weighted against each other; names are verl's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregation {
    /// Every token of the mini-batch alike.
    #[default]
    TokenMean,
    /// The mean over rows of each row's sum.
    SeqMeanTokenSum,
    /// The mean over rows of each row's mean; a row without tokens is 0.
    SeqMeanTokenMean,
    /// The sum over all tokens by a constant length (Dr. GRPO, arXiv 2503.20783).
    SeqMeanTokenSumNorm,
}

/// What a whole mini-batch divides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTotals {
    pub rows: usize,
    /// Tokens in the loss.
    pub tokens: usize,
    /// The length that `seq-mean-token-sum-norm` divides by.
    pub length: usize,
}

impl BatchTotals {
    /// The totals of a mini-batch from the loss masks of its unpadded rows; `length` is that of the longest.
    pub fn of<'a>(loss_masks: impl IntoIterator<Item = &'a [bool]>) -> Self {
        loss_masks.into_iter().fold(Self { rows: 0, tokens: 0, length: 0 }, |totals, mask| Self {
            rows: totals.rows + 1,
            tokens: totals.tokens + mask.iter().filter(|&&trainable| trainable).count(),
            length: totals.length.max(mask.len()),
        })
    }
}

impl Aggregation {
    /// The part that these rows add to the value of the mini-batch. `values` and `mask` are `[rows, tokens]`.
    pub fn sum(self, values: Tensor<2>, mask: Tensor<2, Bool>, totals: &BatchTotals) -> Tensor<1> {
        let outside = mask.bool_not();
        let masked = values.mask_fill(outside.clone(), 0.0);
        let denominator = match self {
            Self::TokenMean => totals.tokens as f64 + EPSILON,
            Self::SeqMeanTokenSum | Self::SeqMeanTokenMean => totals.rows.max(1) as f64,
            Self::SeqMeanTokenSumNorm => totals.length.max(1) as f64,
        };
        let numerator = match self {
            Self::SeqMeanTokenMean => {
                let tokens = masked.ones_like().mask_fill(outside, 0.0).sum_dim(1).clamp_min(1.0);
                (masked.sum_dim(1) / tokens).sum()
            }
            _ => masked.sum(),
        };
        // Not a division: Burn 0.22 rounds the divisor to f32 in its gradient.
        numerator * denominator.recip()
    }
}
