//! The distance from the reference policy, estimated from the tokens that were drawn (Schulman, "Approximating KL
//! divergence").

use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

/// An estimator of `KL(π_θ ‖ π_ref)` per token. Names in brackets are verl's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kl {
    /// `log π_θ − log π_ref` (`kl`): unbiased, of either sign. Its gradient is that of `log π_θ`, whatever the
    /// reference: of use as a figure or in a reward, it pulls nowhere as a loss.
    #[serde(alias = "kl")]
    K1,
    /// `|log π_θ − log π_ref|`.
    Abs,
    /// `½ (log π_θ − log π_ref)²` (`mse`).
    #[serde(alias = "mse")]
    K2,
    /// `e^d − d − 1`, `d = log π_ref − log π_θ` (`low_var_kl`): unbiased, never negative. `d` is clamped to ±20 and
    /// the value to ±10, and a clamped token has no gradient.
    #[default]
    #[serde(alias = "low_var_kl")]
    K3,
}

impl Kl {
    /// The estimate for every token, of the shape of its arguments. Differentiable in `log_probs`.
    pub fn estimate(self, log_probs: Tensor<2>, reference: Tensor<2>) -> Tensor<2> {
        let difference = log_probs - reference.detach();
        match self {
            Self::K1 => difference,
            Self::Abs => difference.abs(),
            Self::K2 => difference.square() * 0.5,
            Self::K3 => {
                let difference = (-difference).clamp(-20.0, 20.0);
                (difference.clone().exp() - difference - 1.0).clamp(-10.0, 10.0)
            }
        }
    }
}
