//! The decoder's shape from GGUF metadata.

use std::io::{Read, Seek};

use super::file::Gguf;
use crate::{
    config::{ConfigError, DecoderConfig, Family, RopeScaling},
    rope::rope_frequencies,
    weights::{WeightsError, source::TensorSource},
};

impl<R: Read + Seek> Gguf<R> {
    /// The shape of the decoder in this file.
    pub(crate) fn config(&mut self) -> Result<DecoderConfig, WeightsError> {
        let file = self.file.clone();
        let named = |source| WeightsError::Config { file: file.clone(), source };
        let mut config = self.shape().map_err(named)?;
        config.validate().map_err(named)?;
        config.rope_scaling = self.rope_scaling(&config)?;
        Ok(config)
    }

    fn shape(&self) -> Result<DecoderConfig, ConfigError> {
        let missing = |field: &str| ConfigError::Missing { field: field.into() };
        let architecture =
            self.text("general.architecture")?.ok_or_else(|| missing("general.architecture"))?;
        let family = match architecture {
            "llama" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => {
                return Err(ConfigError::invalid(
                    "general.architecture",
                    other,
                    "supported: llama, qwen2, qwen3",
                ));
            }
        };
        let key = |name: &str| format!("{architecture}.{name}");
        let size = |name: &str| self.size(&key(name))?.ok_or_else(|| missing(&key(name)));

        if let Some(experts) = self.size(&key("expert_count"))?.filter(|&experts| experts > 0) {
            return Err(ConfigError::invalid(
                &key("expert_count"),
                experts,
                "mixtures of experts are not supported",
            ));
        }
        if let Some(kind) = self.text(&key("rope.scaling.type"))?.filter(|&kind| kind != "none") {
            return Err(ConfigError::invalid(&key("rope.scaling.type"), kind, "supported: none"));
        }
        let hidden_size = size("embedding_length")?;
        let num_attention_heads = size("attention.head_count")?;
        let head_dim = match self.size(&key("attention.key_length"))? {
            Some(head_dim) => head_dim,
            None => hidden_size.checked_div(num_attention_heads).unwrap_or(0),
        };
        for name in ["attention.value_length", "rope.dimension_count"] {
            if let Some(other) = self.size(&key(name))?.filter(|&length| length != head_dim) {
                return Err(ConfigError::invalid(
                    &key(name),
                    other,
                    format!("only the head's {head_dim} is supported"),
                ));
            }
        }
        let embedding = self.shapes().get("token_embd.weight").ok_or_else(|| missing("token_embd.weight"))?;
        let mut eos_token_ids = Vec::new();
        for name in ["eos", "eot", "eom"] {
            let id = self.id(&format!("tokenizer.ggml.{name}_token_id"))?;
            eos_token_ids.extend(id.filter(|id| !eos_token_ids.contains(id)));
        }
        Ok(DecoderConfig {
            family,
            vocab_size: embedding.first().copied().unwrap_or(0),
            hidden_size,
            intermediate_size: size("feed_forward_length")?,
            num_hidden_layers: size("block_count")?,
            num_attention_heads,
            num_key_value_heads: self.size(&key("attention.head_count_kv"))?.unwrap_or(num_attention_heads),
            head_dim,
            rms_norm_eps: self
                .real(&key("attention.layer_norm_rms_epsilon"))?
                .ok_or_else(|| missing(&key("attention.layer_norm_rms_epsilon")))?,
            rope_theta: self.real(&key("rope.freq_base"))?.unwrap_or(10_000.0),
            rope_scaling: None,
            max_position_embeddings: size("context_length")?,
            qkv_bias: self.has_tensor("blk.0.attn_q.bias"),
            o_bias: self.has_tensor("blk.0.attn_output.bias"),
            qk_norm: self.has_tensor("blk.0.attn_q_norm.weight"),
            tie_word_embeddings: !self.has_tensor("output.weight"),
            eos_token_ids,
            bos_token_id: self.id("tokenizer.ggml.bos_token_id")?,
        })
    }

    fn id(&self, key: &str) -> Result<Option<u32>, ConfigError> {
        let Some(id) = self.size(key)? else { return Ok(None) };
        u32::try_from(id).map(Some).map_err(|_| ConfigError::invalid(key, id, "expected a token id"))
    }

    /// llama.cpp keeps no parameters of the Llama 3 scaling, only the divisor of every frequency. Every published model
    /// has low and high factors 1 and 4 and 8,192 positions, so the largest divisor tells the rest, which is checked.
    fn rope_scaling(&mut self, config: &DecoderConfig) -> Result<Option<RopeScaling>, WeightsError> {
        const NAME: &str = "rope_freqs.weight";
        if !self.has_tensor(NAME) {
            return Ok(None);
        }
        let divisors = self.read(NAME)?;
        let factor = divisors.iter().fold(0.0, |max: f32, &divisor| max.max(divisor));
        let scaling = RopeScaling::Llama3 {
            factor: f64::from(factor),
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 8192,
        };
        let plain = rope_frequencies(config);
        let stretched = rope_frequencies(&DecoderConfig { rope_scaling: Some(scaling), ..config.clone() });
        let same = |((plain, stretched), &divisor): ((&f64, &f64), &f32)| {
            (plain / stretched / f64::from(divisor) - 1.0).abs() < 1e-3
        };
        if divisors.len() == plain.len() && plain.iter().zip(&stretched).zip(&divisors).all(same) {
            return Ok(Some(scaling));
        }
        let expected = "only the scaling of Llama 3.1 to 3.3 is supported; load the Hugging Face folder";
        let source = ConfigError::invalid(NAME, format!("up to {factor}"), expected);
        Err(WeightsError::Config { file: self.file.clone(), source })
    }
}
