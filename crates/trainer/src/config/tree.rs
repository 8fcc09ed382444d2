//! The tree itself. Names follow verl and Search-R1 where they have one.

use super::sft::SftConfig;
use crate::retrieval::Method;
use rex_learner::config::{AlgorithmConfig, OptimizerConfig, ProbeConfig, RolloutConfig};
use rex_model::{Activations, Lora};
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
    /// Most tokens (padding included) of one forward and backward pass. What its rows begin with in common is computed once, and
    /// of a row that shares it counts an eighth.
    pub micro_batch_tokens: usize,
    /// Passes computed at once, each by a thread with activations and a gradient of its own; 0: a small model's on all cores of a
    /// CPU, others one by one. On a CPU the products of a pass use all cores anyway, the rest of it one.
    pub passes_at_once: usize,
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
            passes_at_once: 0,
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
