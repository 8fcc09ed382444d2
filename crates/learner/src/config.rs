//! The groups of an experiment file that say how is sampled and learnt. Names follow verl and Search-R1 where they have one.

use rex_grpo::{Aggregation, Correction, Kl, ProbeDensity, ProbeFilter, Singleton};
use rex_rollout::{ProbeOn, Protocol};
use rex_sampler::ProbeStart;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RolloutConfig {
    /// Originals a question (`G`).
    pub group_size: usize,
    /// Turns with search; one more, without it, follows.
    pub max_turns: usize,
    /// Longest prompt, in tokens; a longer one is an error before training starts.
    pub max_start_length: usize,
    /// Longest turn of the model, in tokens.
    pub max_response_length: usize,
    /// Longest observation, in tokens.
    pub max_obs_length: usize,
    /// Longest transcript, in tokens.
    pub max_prompt_length: usize,
    pub temperature: f64,
    /// Transcripts decoded at once; with a small model, by one thread.
    pub max_rows: usize,
}

/// Mixed sampling (METHOD §2, §3, §5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProbeConfig {
    /// Chance that a failed original is probed; 0 turns mixed sampling off.
    pub probability: f64,
    pub on: ProbeOn,
    pub start: ProbeStart,
    /// A text file with one exploration prompt a line; the built-in pool when absent.
    pub pool: Option<PathBuf>,
    pub density: ProbeDensity,
    pub filter: ProbeFilter,
    /// Where the moving average of the probes' accuracy starts.
    pub keep_ratio: f64,
    /// Largest share of probes among a step's kept transcripts (`α`).
    pub max_fraction: f64,
}

/// A preset: values laid over the defaults, which are REX-RAG on GRPO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlgorithmName {
    Rex,
    Grpo,
    Dapo,
    DrGrpo,
    Rloo,
    Reinforce,
    Gspo,
    Cispo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageKind {
    Grpo,
    DrGrpo,
    Rloo,
    Opo,
    Reinforce,
    ReinforceBaseline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    Clip,
    Gspo,
    Cispo,
}

/// Advantage, correction and loss (METHOD §4, §6, §7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AlgorithmConfig {
    pub name: AlgorithmName,
    pub correction: Correction,
    pub advantage: AdvantageKind,
    pub singleton: Singleton,
    pub loss: LossKind,
    pub clip_ratio_low: f64,
    pub clip_ratio_high: f64,
    /// Dual clip: bound of the loss on negative advantages; absent turns it off.
    pub clip_ratio_c: Option<f64>,
    pub loss_agg_mode: Aggregation,
    pub kl_loss_coef: f64,
    pub kl_loss_type: Kl,
    /// Weight `w` of the format score in the reward.
    pub format_weight: f64,
    /// Questions an optimizer update (their transcripts form a mini-batch); 0 takes the whole step.
    pub ppo_mini_batch_size: usize,
    pub ppo_epochs: usize,
    /// Dynamic sampling: how often groups without spread are replaced by fresh questions; 0 turns it off.
    pub max_resamples: usize,
    /// Soft over-long penalty: tokens before `rollout.max_prompt_length` over which it grows to 1; 0 turns it off.
    pub overlong_buffer: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    Constant,
    Cosine,
}

/// AdamW.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerConfig {
    pub lr: f64,
    /// Share of the steps over which the learning rate rises from 0.
    pub lr_warmup_steps_ratio: f64,
    pub schedule: Schedule,
    pub betas: [f32; 2],
    pub eps: f32,
    pub weight_decay: f32,
    /// Largest global norm of the gradient.
    pub grad_clip: f64,
}

impl RolloutConfig {
    /// The rules of an episode, which ends its turns at `end_ids`, too.
    pub fn protocol(&self, end_ids: Vec<u32>) -> Protocol {
        Protocol {
            max_turns: self.max_turns,
            max_response_tokens: self.max_response_length,
            max_obs_tokens: self.max_obs_length,
            max_total_tokens: self.max_prompt_length,
            end_ids,
            ..Protocol::default()
        }
    }
}

impl Default for RolloutConfig {
    fn default() -> Self {
        Self {
            group_size: 5,
            max_turns: 5,
            max_start_length: 2048,
            max_response_length: 500,
            max_obs_length: 500,
            max_prompt_length: 4096,
            temperature: 1.0,
            max_rows: 32,
        }
    }
}

impl Default for ProbeConfig {
    fn default() -> Self {
        Self {
            probability: 0.2,
            on: ProbeOn::WrongAnswer,
            start: ProbeStart::DeadEnd,
            pool: None,
            density: ProbeDensity::Fine,
            filter: ProbeFilter::Likeliest,
            keep_ratio: 0.08,
            max_fraction: 0.15,
        }
    }
}

impl Default for AlgorithmConfig {
    fn default() -> Self {
        Self {
            name: AlgorithmName::Rex,
            correction: Correction::Token,
            advantage: AdvantageKind::Grpo,
            singleton: Singleton::Official,
            loss: LossKind::Clip,
            clip_ratio_low: 0.2,
            clip_ratio_high: 0.2,
            clip_ratio_c: None,
            loss_agg_mode: Aggregation::TokenMean,
            kl_loss_coef: 0.001,
            kl_loss_type: Kl::K3,
            format_weight: 0.0,
            ppo_mini_batch_size: 0,
            ppo_epochs: 1,
            max_resamples: 0,
            overlong_buffer: 0,
        }
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            lr: 1e-6,
            lr_warmup_steps_ratio: 0.285,
            schedule: Schedule::Constant,
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.01,
            grad_clip: 1.0,
        }
    }
}
