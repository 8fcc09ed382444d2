//! The tree itself. Names follow verl and Search-R1 where they have one.

use super::sft::SftConfig;
use crate::retrieval::Method;
use crate::sampler::ProbeStart;
use rex_grpo::{Aggregation, Correction, Kl, ProbeDensity, ProbeFilter, Singleton};
use rex_model::{Activations, Lora};
use rex_rollout::ProbeOn;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::PathBuf;

/// An experiment: everything that a run depends on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub model: ModelConfig,
    pub data: DataConfig,
    pub retriever: RetrieverConfig,
    pub rollout: RolloutConfig,
    pub probe: ProbeConfig,
    pub algorithm: AlgorithmConfig,
    pub optimizer: OptimizerConfig,
    pub trainer: TrainerConfig,
    pub logging: LoggingConfig,
    pub sft: SftConfig,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// A Hugging Face folder, a `.gguf` file, or the id of a model on the Hugging Face Hub (`owner/name`, `owner/name@revision`).
    pub path: PathBuf,
    /// Train low-rank adapters of this rank instead of the weights; 0 trains the weights.
    pub lora_rank: usize,
    /// Adapters are scaled by `lora_alpha / lora_rank`.
    pub lora_alpha: f64,
    /// The linear maps of a layer that get adapters.
    pub target_modules: Vec<String>,
    /// What products are computed in, where the device can: `f32`, `bf16` or, not for training, `f16`. Parameters and
    /// optimizer are in f32 all the same.
    pub precision: Precision,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    #[default]
    F32,
    Bf16,
    F16,
}

impl ModelConfig {
    /// The adapters to train, if any.
    pub fn lora(&self) -> Option<Lora> {
        let Self { lora_rank: rank, lora_alpha: alpha, ref target_modules, .. } = *self;
        (rank > 0).then(|| Lora { rank, alpha, target_modules: target_modules.clone() })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Question files: FlashRAG JSONL (plain or gzip) or Search-R1 parquet.
    pub train_files: Vec<PathBuf>,
    pub val_files: Vec<PathBuf>,
    /// Questions a step.
    pub train_batch_size: usize,
    /// Questions of `val_files` used by an evaluation; 0 uses all.
    pub val_limit: usize,
    /// Draw the questions of an epoch in random order.
    pub shuffle: bool,
    /// The prompt; `{question}` stands for the question. Special tokens in it are parsed.
    pub prompt: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetrieverConfig {
    /// Servers of the `/retrieve` contract (`rex serve`, Search-R1's), one or a list, each over a part of the corpus; wins
    /// over `index` and `corpus`.
    #[serde(deserialize_with = "one_or_many")]
    pub url: Vec<String>,
    /// Seconds that a request may take.
    pub timeout_s: u64,
    /// How often a request is sent again after 429, 5xx or no answer at all; the wait doubles from half a second.
    pub retries: u32,
    /// Queries a request.
    pub batch_size: usize,
    /// Requests to a server at once.
    pub concurrency: usize,
    /// A folder made by `rex index build`; wins over `corpus`.
    pub index: Option<PathBuf>,
    /// How the index is searched; all but `bm25` need one built with `--encoder`.
    pub method: Method,
    /// Corpus files (JSONL, plain or gzip), indexed in memory when the run starts.
    pub corpus: Vec<PathBuf>,
    /// Passages a search returns.
    pub topk: usize,
    /// A server of Search-R1's `/rerank` contract, which picks the `topk` out of `rerank_candidates` passages.
    pub rerank_url: Option<String>,
    /// Passages that the reranking server looks at.
    pub rerank_candidates: usize,
}

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

/// A preset: the values that it stands for are in `presets.rs`.
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

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainerConfig {
    pub total_steps: usize,
    pub seed: u64,
    /// Folder of the run.
    pub run_dir: PathBuf,
    /// Steps between checkpoints; the last step always has one. 0: only the last.
    pub save_freq: usize,
    /// Checkpoints kept, oldest deleted first.
    pub max_checkpoints: usize,
    /// Steps between evaluations on `data.val_files`; 0: never.
    pub test_freq: usize,
    pub val_before_train: bool,
    /// Most tokens (padding included) of one forward and backward pass.
    pub micro_batch_tokens: usize,
    /// Keep only the input of every layer for the backward pass and compute the rest again: much less memory, a step about a
    /// third longer.
    pub gradient_checkpointing: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoggingConfig {
    /// Steps between `rollouts/STEP.jsonl` files; 0: never.
    pub rollout_freq: usize,
    /// Questions of each source, from the first, whose transcripts an evaluation writes to `rollouts/val-STEP.jsonl`; 0:
    /// none.
    pub val_rollouts: usize,
}

/// Asks for the protocol of METHOD §1, in our words.
const PROMPT: &str = "Answer the question below. Whenever you receive new information, first reason about it \
between <think> and </think>. If you lack a fact, search for it by writing <search> your query </search>; the \
passages found are then shown between <information> and </information>. You may search as often as you need. \
When you know the answer, write it without explanation between <answer> and </answer>, for example \
<answer> Beijing </answer>.\nQuestion: {question}\n";

impl TrainerConfig {
    pub fn activations(&self) -> Activations {
        if self.gradient_checkpointing { Activations::Recomputed } else { Activations::Kept }
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            path: PathBuf::new(),
            lora_rank: 0,
            lora_alpha: 16.0,
            target_modules: Lora::MODULES.map(String::from).to_vec(),
            precision: Precision::default(),
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            train_files: Vec::new(),
            val_files: Vec::new(),
            train_batch_size: 512,
            val_limit: 0,
            shuffle: true,
            prompt: PROMPT.to_string(),
        }
    }
}

impl Default for RetrieverConfig {
    fn default() -> Self {
        Self {
            url: Vec::new(),
            timeout_s: 60,
            retries: 6,
            batch_size: 256,
            concurrency: 4,
            index: None,
            method: Method::Bm25,
            corpus: Vec::new(),
            topk: 3,
            rerank_url: None,
            rerank_candidates: 10,
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

impl Default for TrainerConfig {
    fn default() -> Self {
        Self {
            total_steps: 1005,
            seed: 0,
            run_dir: PathBuf::from("runs/rex"),
            save_freq: 100,
            max_checkpoints: 2,
            test_freq: 100,
            val_before_train: true,
            micro_batch_tokens: 8192,
            gradient_checkpointing: false,
        }
    }
}

impl Default for LoggingConfig {
    fn default() -> Self {
        Self { rollout_freq: 1, val_rollouts: 8 }
    }
}

/// A list, or the one string that is written without brackets.
fn one_or_many<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a string or a list of strings")]
    enum OneOrMany {
        One(String),
        Many(Vec<String>),
    }
    Ok(match OneOrMany::deserialize(deserializer)? {
        OneOrMany::One(one) => vec![one],
        OneOrMany::Many(many) => many,
    })
}
