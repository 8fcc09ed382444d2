//! Ranges, checked once, before anything is loaded.

use super::error::ConfigError;
use super::tree::Config;
use rex_model::Lora;
use std::path::{Path, PathBuf};

impl Config {
    /// Refuses values that no run could use.
    ///
    /// # Errors
    /// Names the key, its value and the rule.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let rule = |holds: bool, key: &'static str, value: &dyn std::fmt::Display, rule: &'static str| {
            if holds { Ok(()) } else { Err(ConfigError::Rule { key, value: value.to_string(), rule }) }
        };
        let share = |key, value: f64| rule((0.0..=1.0).contains(&value), key, &value, "must lie in 0..=1");
        let count = |key, value: usize| rule(value > 0, key, &value, "must be at least 1");
        let positive = |key, value: f64| {
            rule(value > 0.0 && value.is_finite(), key, &value, "must be a positive number")
        };
        let not_negative =
            |key, value: f64| rule(value >= 0.0 && value.is_finite(), key, &value, "must not be negative");

        positive("model.lora_alpha", self.model.lora_alpha)?;
        let modules = &self.model.target_modules;
        rule(
            !modules.is_empty() && modules.iter().all(|module| Lora::MODULES.contains(&module.as_str())),
            "model.target_modules",
            &format!("{modules:?}"),
            "must name some of q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj",
        )?;
        count("data.train_batch_size", self.data.train_batch_size)?;
        rule(
            self.data.prompt.contains("{question}"),
            "data.prompt",
            &format!("{:?}", self.data.prompt),
            "must contain {question}",
        )?;
        let retriever = &self.retriever;
        count("retriever.topk", retriever.topk)?;
        let url = |key, url: &String, example| {
            let is_url = url.starts_with("http://") || url.starts_with("https://");
            rule(is_url, key, url, example)
        };
        for server in &retriever.url {
            url("retriever.url", server, "must be a URL, for example http://127.0.0.1:8000/retrieve")?;
        }
        if let Some(server) = &retriever.rerank_url {
            url("retriever.rerank_url", server, "must be a URL, for example http://127.0.0.1:6980/rerank")?;
        }
        count("retriever.rerank_candidates", retriever.rerank_candidates)?;
        rule(retriever.timeout_s > 0, "retriever.timeout_s", &retriever.timeout_s, "must be at least 1")?;
        count("retriever.batch_size", retriever.batch_size)?;
        count("retriever.concurrency", retriever.concurrency)?;
        let rollout = &self.rollout;
        count("rollout.group_size", rollout.group_size)?;
        count("rollout.max_start_length", rollout.max_start_length)?;
        count("rollout.max_response_length", rollout.max_response_length)?;
        rule(
            rollout.max_prompt_length > rollout.max_start_length,
            "rollout.max_prompt_length",
            &rollout.max_prompt_length,
            "must exceed rollout.max_start_length: it bounds the whole transcript",
        )?;
        count("rollout.max_rows", rollout.max_rows)?;
        positive("rollout.temperature", rollout.temperature)?;
        share("probe.probability", self.probe.probability)?;
        share("probe.keep_ratio", self.probe.keep_ratio)?;
        rule(
            (0.0..1.0).contains(&self.probe.max_fraction),
            "probe.max_fraction",
            &self.probe.max_fraction,
            "must lie in 0..1",
        )?;
        let algorithm = &self.algorithm;
        not_negative("algorithm.clip_ratio_low", algorithm.clip_ratio_low)?;
        not_negative("algorithm.clip_ratio_high", algorithm.clip_ratio_high)?;
        if let Some(c) = algorithm.clip_ratio_c {
            rule(c > 1.0, "algorithm.clip_ratio_c", &c, "must exceed 1")?;
        }
        not_negative("algorithm.kl_loss_coef", algorithm.kl_loss_coef)?;
        not_negative("algorithm.format_weight", algorithm.format_weight)?;
        count("algorithm.ppo_epochs", algorithm.ppo_epochs)?;
        let optimizer = &self.optimizer;
        not_negative("optimizer.lr", optimizer.lr)?;
        share("optimizer.lr_warmup_steps_ratio", optimizer.lr_warmup_steps_ratio)?;
        positive("optimizer.grad_clip", optimizer.grad_clip)?;
        not_negative("optimizer.weight_decay", optimizer.weight_decay.into())?;
        rule(
            optimizer.betas.iter().all(|beta| (0.0..1.0).contains(beta)),
            "optimizer.betas",
            &format!("{:?}", optimizer.betas),
            "must lie in 0..1",
        )?;
        let trainer = &self.trainer;
        count("trainer.total_steps", trainer.total_steps)?;
        count("trainer.max_checkpoints", trainer.max_checkpoints)?;
        rule(
            !trainer.run_dir.as_os_str().is_empty(),
            "trainer.run_dir",
            &"\"\"",
            "must name a folder, for example runs/first",
        )?;
        rule(
            trainer.micro_batch_tokens >= rollout.max_prompt_length,
            "trainer.micro_batch_tokens",
            &trainer.micro_batch_tokens,
            "must be at least rollout.max_prompt_length: one transcript must fit",
        )
    }

    /// The model, which every command needs.
    ///
    /// # Errors
    /// When it is not set.
    pub fn model_path(&self) -> Result<&Path, ConfigError> {
        let path = self.model.path.as_path();
        let rule = "must name a Hugging Face folder, a .gguf file or a model on the Hub (owner/name)";
        if path.as_os_str().is_empty() {
            return Err(ConfigError::Rule { key: "model.path", value: "\"\"".to_string(), rule });
        }
        Ok(path)
    }

    /// The training questions.
    ///
    /// # Errors
    /// When there are none.
    pub fn train_files(&self) -> Result<&[PathBuf], ConfigError> {
        files("data.train_files", &self.data.train_files)
    }

    /// The validation questions.
    ///
    /// # Errors
    /// When there are none.
    pub fn val_files(&self) -> Result<&[PathBuf], ConfigError> {
        files("data.val_files", &self.data.val_files)
    }
}

fn files<'f>(key: &'static str, files: &'f [PathBuf]) -> Result<&'f [PathBuf], ConfigError> {
    let rule = "must name question files (JSONL or parquet)";
    if files.is_empty() { Err(ConfigError::Rule { key, value: "[]".to_string(), rule }) } else { Ok(files) }
}
