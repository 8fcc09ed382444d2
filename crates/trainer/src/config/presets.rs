//! What each `algorithm.name` stands for: TOML laid between the defaults and the user's file.

use super::AlgorithmName;

/// Only what differs from the defaults, which are REX-RAG on GRPO.
pub(super) fn preset(name: AlgorithmName) -> &'static str {
    match name {
        AlgorithmName::Rex => "",
        AlgorithmName::Grpo => "probe.probability = 0.0",
        AlgorithmName::Dapo => {
            "probe.probability = 0.0
             algorithm.clip_ratio_high = 0.28
             algorithm.kl_loss_coef = 0.0
             algorithm.max_resamples = 3
             algorithm.overlong_buffer = 512"
        }
        AlgorithmName::DrGrpo => {
            "probe.probability = 0.0
             algorithm.advantage = 'dr_grpo'
             algorithm.loss_agg_mode = 'seq-mean-token-sum-norm'
             algorithm.kl_loss_coef = 0.0"
        }
        AlgorithmName::Rloo => "probe.probability = 0.0\nalgorithm.advantage = 'rloo'",
        AlgorithmName::Reinforce => "probe.probability = 0.0\nalgorithm.advantage = 'reinforce_baseline'",
        AlgorithmName::Gspo => {
            "probe.probability = 0.0
             algorithm.loss = 'gspo'
             algorithm.loss_agg_mode = 'seq-mean-token-mean'
             algorithm.clip_ratio_low = 3e-4
             algorithm.clip_ratio_high = 4e-4
             algorithm.kl_loss_coef = 0.0"
        }
        AlgorithmName::Cispo => {
            "probe.probability = 0.0
             algorithm.loss = 'cispo'
             algorithm.clip_ratio_low = 1.0
             algorithm.clip_ratio_high = 4.0
             algorithm.kl_loss_coef = 0.0"
        }
    }
}
