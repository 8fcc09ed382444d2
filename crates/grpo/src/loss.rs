//! The policy loss of every token, from the ratio `ρ = π_θ/π_mix` and the advantage `A`.

use burn::tensor::{Bool, Tensor};
use serde::{Deserialize, Serialize};

/// Beyond `e^±20` a ratio says nothing more, and an overflow would make NaN of the gradient of a clipped token
/// (0·∞); later versions of verl clamp here too.
const MAX_LOG_RATIO: f64 = 20.0;

/// How the ratio enters the loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PolicyLoss {
    /// `max(−A·ρ, −A·clip(ρ, 1−low, 1+high))` (PPO, arXiv 1707.06347; DAPO's `high` is 0.28). With `dual_clip = c`
    /// the loss of a negative advantage is at most `−A·c` (arXiv 1912.09729).
    Clipped {
        clip_ratio_low: f64,
        clip_ratio_high: f64,
        #[serde(default)]
        dual_clip: Option<f64>,
    },
    /// The same with one ratio per transcript, the geometric mean of its tokens' (GSPO, arXiv 2507.18071). Meant
    /// for `seq-mean-token-mean`.
    Gspo { clip_ratio_low: f64, clip_ratio_high: f64 },
    /// `−A·sg(clip(ρ, 1−low, 1+high))·log π_θ`, `sg` = no gradient: every token keeps its gradient, at a bounded
    /// weight (CISPO, arXiv 2506.13585).
    Cispo { clip_ratio_low: f64, clip_ratio_high: f64 },
}

/// What the ratio compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RatioLevel {
    /// Each token with itself.
    #[default]
    Token,
    /// The product over a transcript's tokens in the loss: one ratio per transcript.
    Transcript,
}

/// The tensors of a micro-batch, each `[rows, tokens]`.
#[derive(Clone, Debug)]
pub struct PolicyInput {
    /// `log π_θ`, with gradient.
    pub log_probs: Tensor<2>,
    /// `log π_mix`, [`crate::Behaviour::log_probs`].
    pub behaviour: Tensor<2>,
    pub level: RatioLevel,
    /// `[rows, 1]` or `[rows, tokens]`.
    pub advantages: Tensor<2>,
    /// The tokens in the loss.
    pub mask: Tensor<2, Bool>,
}

/// The policy loss, token by token `[rows, tokens]`, and what to make statistics of (no gradient).
#[derive(Clone, Debug)]
pub struct PolicyTerm {
    /// To be summed up by [`crate::Aggregation`].
    pub loss: Tensor<2>,
    /// `log ρ`, 0 outside the mask.
    pub log_ratio: Tensor<2>,
    /// Where the clipped value replaced the plain one; not masked.
    pub clipped: Tensor<2, Bool>,
}

impl Default for PolicyLoss {
    fn default() -> Self {
        Self::Clipped { clip_ratio_low: 0.2, clip_ratio_high: 0.2, dual_clip: None }
    }
}

impl PolicyLoss {
    /// The loss of every token. Differentiable in `log_probs` only.
    pub fn term(&self, input: PolicyInput) -> PolicyTerm {
        let log_ratio = self.log_ratio(&input);
        let ratio = log_ratio.clone().exp();
        let log_probs = input.log_probs;
        let cost = -input.advantages;
        let (loss, clipped) = match *self {
            Self::Clipped { clip_ratio_low, clip_ratio_high, dual_clip } => {
                let (loss, clipped) = pessimistic(cost.clone(), ratio, clip_ratio_low, clip_ratio_high);
                match dual_clip {
                    Some(limit) => at_most(loss, clipped, cost, limit),
                    None => (loss, clipped),
                }
            }
            Self::Gspo { clip_ratio_low, clip_ratio_high } => {
                pessimistic(cost, ratio, clip_ratio_low, clip_ratio_high)
            }
            Self::Cispo { clip_ratio_low, clip_ratio_high } => {
                let ratio = ratio.detach();
                let bounded = ratio.clone().clamp(1.0 - clip_ratio_low, 1.0 + clip_ratio_high);
                let clipped = ratio.not_equal(bounded.clone());
                (cost * bounded * log_probs, clipped)
            }
        };
        PolicyTerm { loss, log_ratio: log_ratio.detach(), clipped }
    }

    /// `log ρ` `[rows, tokens]`, 0 outside the mask.
    ///
    /// A ratio of a whole transcript stands at each of its tokens with that token's share of the gradient,
    /// `sg(s)·π_θ,t/sg(π_θ,t)` (GSPO, section 4.3): the sum over the tokens of `A·∇ρ` is `A·s·Σ ∇log π_θ,t`.
    fn log_ratio(&self, input: &PolicyInput) -> Tensor<2> {
        let outside = input.mask.clone().bool_not();
        let per_token =
            (input.log_probs.clone() - input.behaviour.clone().detach()).mask_fill(outside.clone(), 0.0);
        let of_transcript = match (self, input.level) {
            (Self::Gspo { .. }, _) => {
                let tokens = per_token.ones_like().mask_fill(outside.clone(), 0.0).sum_dim(1);
                per_token.clone().sum_dim(1) / tokens.clamp_min(1.0)
            }
            (_, RatioLevel::Transcript) => per_token.clone().sum_dim(1),
            (_, RatioLevel::Token) => return per_token.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO),
        };
        let value = of_transcript.detach().clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO);
        let share_of_gradient = input.log_probs.clone() - input.log_probs.clone().detach();
        (value + share_of_gradient).mask_fill(outside, 0.0)
    }
}

/// `max(cost·ρ, cost·clip(ρ))`, cost = `−A`, and where the second is larger.
fn pessimistic(cost: Tensor<2>, ratio: Tensor<2>, low: f64, high: f64) -> (Tensor<2>, Tensor<2, Bool>) {
    let plain = cost.clone() * ratio.clone();
    let bounded = cost * ratio.clamp(1.0 - low, 1.0 + high);
    let clipped = bounded.clone().greater(plain.clone());
    (plain.mask_where(clipped.clone(), bounded), clipped)
}

/// The dual clip: `min(loss, cost·limit)` where the advantage is negative.
fn at_most(
    loss: Tensor<2>,
    clipped: Tensor<2, Bool>,
    cost: Tensor<2>,
    limit: f64,
) -> (Tensor<2>, Tensor<2, Bool>) {
    let ceiling = (cost.clone() * limit).expand(loss.shape());
    let negative = cost.greater_scalar(0.0).expand(loss.shape());
    let over = loss.clone().greater(ceiling.clone()).bool_and(negative);
    (loss.mask_where(over.clone(), ceiling), clipped.bool_or(over))
}
