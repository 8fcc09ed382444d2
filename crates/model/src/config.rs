//! The shape of a decoder: what Llama, Qwen2 and Qwen3 share, and the switches in which they differ.

mod hugging_face;

/// The shape of a decoder-only transformer with RMS norm, rotary positions and a SwiGLU MLP.
///
/// Fields carry the names of `config.json`; see [`from_hf`](Self::from_hf) for their defaults there.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderConfig {
    /// Which family's names and defaults `config.json` uses; the decoder reads only the switches below.
    pub family: Family,
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub head_dim: usize,
    pub rms_norm_eps: f64,
    pub rope_theta: f64,
    pub rope_scaling: Option<RopeScaling>,
    pub max_position_embeddings: usize,
    /// The query, key and value projections have a bias.
    pub qkv_bias: bool,
    /// The output projection of attention has a bias.
    pub o_bias: bool,
    /// Queries and keys pass an RMS norm of their own, per head, before the rotation.
    pub qk_norm: bool,
    /// The logits use the embedding matrix; there is no `lm_head`.
    pub tie_word_embeddings: bool,
    /// Every id that ends a text.
    pub eos_token_ids: Vec<u32>,
    pub bos_token_id: Option<u32>,
}

/// The model families whose checkpoints can be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    Llama,
    Qwen2,
    Qwen3,
}

/// How rotary frequencies are stretched for contexts longer than the model was first trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RopeScaling {
    /// Llama 3.1: frequencies whose wavelength exceeds `original_max_position_embeddings / low_freq_factor` are
    /// divided by `factor`, those below `original_max_position_embeddings / high_freq_factor` stay, and those in
    /// between are interpolated (`_compute_llama3_parameters` in transformers).
    Llama3 {
        factor: f64,
        low_freq_factor: f64,
        high_freq_factor: f64,
        original_max_position_embeddings: usize,
    },
    /// YaRN (Peng et al., arXiv 2309.00071): frequencies that turn more than `beta_fast` times in
    /// `original_max_position_embeddings` tokens stay, those that turn fewer than `beta_slow` times are divided by `factor`, a
    /// ramp lies between, and queries and keys are both multiplied by `attention_factor` (`_compute_yarn_parameters` in
    /// transformers).
    Yarn {
        factor: f64,
        beta_fast: f64,
        beta_slow: f64,
        attention_factor: f64,
        original_max_position_embeddings: usize,
    },
}

/// Why a model configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("`{field}` is missing")]
    Missing { field: String },
    #[error("`{field}` is {value}; {expected}")]
    Invalid { field: String, value: String, expected: String },
}

impl ConfigError {
    pub(crate) fn invalid(field: &str, value: impl ToString, expected: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), value: value.to_string(), expected: expected.into() }
    }
}

impl DecoderConfig {
    /// Checks that the sizes describe a decoder.
    ///
    /// # Errors
    /// Names the first field that does not fit, its value and what would.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
            ("head_dim", self.head_dim),
            ("num_attention_heads * head_dim", self.num_attention_heads.saturating_mul(self.head_dim)),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        for (field, value) in sizes {
            if value == 0 || value > MAX_SIZE {
                return Err(ConfigError::invalid(field, value, format!("expected 1 to {MAX_SIZE}")));
            }
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(ConfigError::invalid(
                "head_dim",
                self.head_dim,
                "rotary positions need an even number",
            ));
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let expected = format!("it must divide num_attention_heads = {}", self.num_attention_heads);
            return Err(ConfigError::invalid("num_key_value_heads", self.num_key_value_heads, expected));
        }
        let mut reals = vec![("rms_norm_eps", self.rms_norm_eps), ("rope_theta", self.rope_theta)];
        let exceeds = |(larger, large): (&str, f64), (smaller, small): (&str, f64)| {
            if large.partial_cmp(&small) != Some(std::cmp::Ordering::Greater) {
                return Err(ConfigError::invalid(
                    larger,
                    large,
                    format!("it must exceed {smaller} = {small}"),
                ));
            }
            Ok(())
        };
        match self.rope_scaling {
            None => {}
            Some(RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, .. }) => {
                exceeds(("high_freq_factor", high_freq_factor), ("low_freq_factor", low_freq_factor))?;
                reals.extend([("factor", factor), ("low_freq_factor", low_freq_factor)]);
            }
            Some(RopeScaling::Yarn { factor, beta_fast, beta_slow, attention_factor, .. }) => {
                exceeds(("beta_fast", beta_fast), ("beta_slow", beta_slow))?;
                let positive =
                    [("factor", factor), ("beta_slow", beta_slow), ("attention_factor", attention_factor)];
                reals.extend(positive);
            }
        }
        for (field, value) in reals {
            if !(value.is_finite() && value > 0.0) {
                return Err(ConfigError::invalid(field, value, "expected a positive number"));
            }
        }
        for &id in self.eos_token_ids.iter().chain(&self.bos_token_id) {
            if id as usize >= self.vocab_size {
                let expected = format!("ids must be below vocab_size = {}", self.vocab_size);
                return Err(ConfigError::invalid("eos_token_id / bos_token_id", id, expected));
            }
        }
        Ok(())
    }
}

/// No size of a real model comes near it, and the product of two sizes below it cannot overflow.
const MAX_SIZE: usize = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;

    const LLAMA: &str = r#"{"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64"#;

    /// Reads [`LLAMA`] with more fields; later fields win.
    fn read(fields: &str) -> Result<DecoderConfig, ConfigError> {
        DecoderConfig::from_hf(&format!("{LLAMA}{fields}}}"))
    }

    #[test]
    fn absent_fields_take_the_defaults_of_transformers() {
        let llama = read("").unwrap();
        assert_eq!((llama.num_key_value_heads, llama.head_dim, llama.rope_theta), (4, 4, 10_000.0));
        assert_eq!((llama.qkv_bias, llama.o_bias, llama.qk_norm), (false, false, false));
        assert!(!llama.tie_word_embeddings && llama.eos_token_ids.is_empty());
        let qwen2 = read(r#", "model_type": "qwen2", "eos_token_id": 2"#).unwrap();
        assert_eq!((qwen2.qkv_bias, qwen2.o_bias, qwen2.qk_norm), (true, false, false));
        assert_eq!(qwen2.eos_token_ids, [2]);
        let qwen3 = read(r#", "model_type": "qwen3", "eos_token_id": [3, 4]"#).unwrap();
        assert_eq!((qwen3.head_dim, qwen3.qkv_bias, qwen3.qk_norm), (128, false, true));
        assert_eq!(qwen3.eos_token_ids, [3, 4]);
        let biased = read(r#", "attention_bias": true"#).unwrap();
        assert_eq!((biased.qkv_bias, biased.o_bias), (true, true));
    }

    #[test]
    fn rotary_settings_of_both_versions_are_read() {
        let llama3 = r#""factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32"#;
        let expected = Some(RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 32,
        });
        let check = |fields: String, theta, scaling| {
            let config = read(&fields).unwrap();
            assert_eq!((config.rope_theta, config.rope_scaling), (theta, scaling), "{fields}");
        };
        check(r#", "rope_theta": 500000.0, "rope_scaling": null"#.into(), 500_000.0, None);
        check(format!(r#", "rope_scaling": {{"rope_type": "llama3", {llama3}}}"#), 10_000.0, expected);
        check(format!(r#", "rope_theta": 5, "rope_scaling": {{"type": "llama3", {llama3}}}"#), 5.0, expected);
        check(r#", "rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}"#.into(), 7.0, None);
        check(
            format!(r#", "rope_parameters": {{"rope_theta": 7.0, "rope_type": "llama3", {llama3}}}"#),
            7.0,
            expected,
        );
    }

    #[test]
    fn to_hf_reads_back_as_the_same_decoder() {
        let scaling = r#", "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 32}"#;
        let yarn = r#", "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16}"#;
        for fields in [
            "",
            scaling,
            yarn,
            r#", "attention_bias": true, "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": [2, 3]"#,
            r#", "model_type": "qwen2", "rms_norm_eps": 1e-5"#,
            r#", "model_type": "qwen3", "head_dim": 8, "num_key_value_heads": 2, "attention_bias": true"#,
        ] {
            let config = read(fields).unwrap();
            assert_eq!(DecoderConfig::from_hf(&config.to_hf()).unwrap(), config, "{fields}");
        }
    }

    #[test]
    fn generation_config_adds_end_ids() {
        let mut config = read(r#", "eos_token_id": 2"#).unwrap();
        config.merge_generation_config(r#"{"eos_token_id": [2, 5]}"#).unwrap();
        config.merge_generation_config("{}").unwrap();
        assert_eq!(config.eos_token_ids, [2, 5]);
        assert!(config.merge_generation_config(r#"{"eos_token_id": 99}"#).is_err());
    }

    #[test]
    fn refusals_name_the_field_and_the_value() {
        for (fields, words) in [
            (r#", "model_type": "gpt2""#, ["model_type", "gpt2"]),
            (r#", "model_type": 3"#, ["model_type", "3"]),
            (r#", "vocab_size": null"#, ["vocab_size", "missing"]),
            (r#", "vocab_size": 0"#, ["vocab_size", "0"]),
            (r#", "hidden_size": -16"#, ["hidden_size", "-16"]),
            (r#", "hidden_size": 1e30"#, ["hidden_size", "1e+30"]),
            (r#", "hidden_size": "16""#, ["hidden_size", "16"]),
            (r#", "num_attention_heads": 3"#, ["num_attention_heads", "3"]),
            (r#", "num_attention_heads": 0"#, ["num_attention_heads", "0"]),
            (r#", "num_key_value_heads": 3"#, ["num_key_value_heads", "3"]),
            (r#", "head_dim": 3"#, ["head_dim", "even"]),
            (r#", "hidden_act": "gelu""#, ["hidden_act", "gelu"]),
            (r#", "mlp_bias": true"#, ["mlp_bias", "true"]),
            (r#", "rms_norm_eps": -1.0"#, ["rms_norm_eps", "-1"]),
            (r#", "rope_scaling": {"rope_type": "longrope"}"#, ["rope_type", "longrope"]),
            (r#", "rope_scaling": {"rope_type": "yarn"}"#, ["factor", "missing"]),
            (r#", "rope_scaling": {"rope_type": "yarn", "factor": 4, "mscale": 0.7}"#, ["mscale", "0.7"]),
            (r#", "rope_scaling": {"rope_type": "yarn", "factor": 4, "beta_slow": 50}"#, ["beta_fast", "50"]),
            (r#", "rope_scaling": {"rope_type": "llama3"}"#, ["factor", "missing"]),
            (r#", "rope_parameters": {"partial_rotary_factor": 0.5}"#, ["partial_rotary_factor", "0.5"]),
            (
                r#", "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1"#,
                ["use_sliding_window", "full"],
            ),
            (
                r#", "layer_types": ["full_attention", "sliding_attention"]"#,
                ["layer_types", "sliding_attention"],
            ),
            (r#", "quantization_config": {"bits": 4}"#, ["quantization_config", "GGUF"]),
            (r#", "eos_token_id": 32"#, ["eos_token_id", "32"]),
            (r#", "eos_token_id": [1, "x"]"#, ["eos_token_id", "x"]),
        ] {
            let message = read(fields).expect_err(fields).to_string();
            assert!(words.iter().all(|word| message.contains(word)), "{fields}: {message}");
        }
        for text in ["", "[]", "{", "3"] {
            assert!(matches!(DecoderConfig::from_hf(text), Err(ConfigError::Json(_))), "{text}");
        }
        let inactive = r#", "model_type": "qwen2", "use_sliding_window": false, "sliding_window": 8"#;
        assert!(read(inactive).is_ok());
    }
}
