//! `config.json` and `generation_config.json` of Hugging Face transformers, versions 4 and 5.

use serde_json::{Map, Value, json};

use super::{ConfigError, DecoderConfig, Family, RopeScaling};

impl DecoderConfig {
    /// Reads the text of a `config.json` whose `model_type` is `llama`, `qwen2` or `qwen3`.
    ///
    /// The six sizes must be there; what else is absent takes the default of transformers. The rotary settings may
    /// stand in `rope_theta` and `rope_scaling` (version 4) or in `rope_parameters` (version 5).
    ///
    /// # Errors
    /// On fields that are missing, of the wrong type or out of range, and on features that the decoder lacks:
    /// other activations than SiLU, sliding windows, other rotary scalings than `llama3` and `yarn`, quantised weights.
    pub fn from_hf(config_json: &str) -> Result<Self, ConfigError> {
        let root: Map<String, Value> = serde_json::from_str(config_json)?;
        let root = Fields(&root);
        let family = match root.text("model_type")?.ok_or_else(|| missing("model_type"))? {
            "llama" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            other => return Err(ConfigError::invalid("model_type", other, "supported: llama, qwen2, qwen3")),
        };
        refuse_unsupported(&root)?;

        let hidden_size = root.size("hidden_size")?;
        let num_attention_heads = root.size("num_attention_heads")?;
        let head_dim = match (root.optional_size("head_dim")?, family) {
            (Some(head_dim), _) => head_dim,
            (None, Family::Qwen3) => 128,
            (None, _) if num_attention_heads == 0 || hidden_size % num_attention_heads != 0 => {
                let expected = format!("it must divide hidden_size = {hidden_size} when head_dim is absent");
                return Err(ConfigError::invalid("num_attention_heads", num_attention_heads, expected));
            }
            (None, _) => hidden_size / num_attention_heads,
        };
        let attention_bias = root.flag("attention_bias")?.unwrap_or(false);
        let (rope_theta, rope_scaling) = rope(&root)?;
        let config = Self {
            family,
            vocab_size: root.size("vocab_size")?,
            hidden_size,
            intermediate_size: root.size("intermediate_size")?,
            num_hidden_layers: root.size("num_hidden_layers")?,
            num_attention_heads,
            num_key_value_heads: root.optional_size("num_key_value_heads")?.unwrap_or(num_attention_heads),
            head_dim,
            rms_norm_eps: root.number("rms_norm_eps")?.unwrap_or(1e-6),
            rope_theta,
            rope_scaling,
            max_position_embeddings: root.size("max_position_embeddings")?,
            qkv_bias: attention_bias || family == Family::Qwen2,
            o_bias: attention_bias && family != Family::Qwen2,
            qk_norm: family == Family::Qwen3,
            tie_word_embeddings: root.flag("tie_word_embeddings")?.unwrap_or(false),
            eos_token_ids: root.ids("eos_token_id")?,
            bos_token_id: root.ids("bos_token_id")?.first().copied(),
        };
        config.validate()?;
        Ok(config)
    }

    /// Adds the end-of-text ids of a `generation_config.json`, which may name more than `config.json`.
    ///
    /// # Errors
    /// As [`from_hf`](Self::from_hf).
    pub fn merge_generation_config(&mut self, generation_config_json: &str) -> Result<(), ConfigError> {
        let root: Map<String, Value> = serde_json::from_str(generation_config_json)?;
        for id in Fields(&root).ids("eos_token_id")? {
            if !self.eos_token_ids.contains(&id) {
                self.eos_token_ids.push(id);
            }
        }
        self.validate()
    }

    /// The text of a `config.json` that [`from_hf`](Self::from_hf) and transformers read back as this decoder.
    pub fn to_hf(&self) -> String {
        let (model_type, architecture) = match self.family {
            Family::Llama => ("llama", "LlamaForCausalLM"),
            Family::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
            Family::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
        };
        let rope_scaling = self.rope_scaling.map(|scaling| match scaling {
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings,
            } => json!({
                "rope_type": "llama3",
                "factor": factor,
                "low_freq_factor": low_freq_factor,
                "high_freq_factor": high_freq_factor,
                "original_max_position_embeddings": original_max_position_embeddings,
            }),
            RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                attention_factor,
                original_max_position_embeddings,
            } => json!({
                "rope_type": "yarn",
                "factor": factor,
                "beta_fast": beta_fast,
                "beta_slow": beta_slow,
                "attention_factor": attention_factor,
                "original_max_position_embeddings": original_max_position_embeddings,
            }),
        });
        let mut config = json!({
            "architectures": [architecture],
            "model_type": model_type,
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_hidden_layers,
            "num_attention_heads": self.num_attention_heads,
            "num_key_value_heads": self.num_key_value_heads,
            "head_dim": self.head_dim,
            "hidden_act": "silu",
            "rms_norm_eps": self.rms_norm_eps,
            "rope_theta": self.rope_theta,
            "rope_scaling": rope_scaling,
            "max_position_embeddings": self.max_position_embeddings,
            "tie_word_embeddings": self.tie_word_embeddings,
            "bos_token_id": self.bos_token_id,
            "eos_token_id": self.eos_token_ids,
        });
        match self.family {
            Family::Llama | Family::Qwen3 => config["attention_bias"] = self.qkv_bias.into(),
            Family::Qwen2 => config["use_sliding_window"] = false.into(),
        }
        format!("{config:#}\n")
    }

    /// The text of a `generation_config.json`: the ids at which generation begins and ends.
    pub fn to_hf_generation(&self) -> String {
        format!("{:#}\n", json!({ "bos_token_id": self.bos_token_id, "eos_token_id": self.eos_token_ids }))
    }
}

/// Features that change what a checkpoint computes and that the decoder lacks.
fn refuse_unsupported(root: &Fields) -> Result<(), ConfigError> {
    if let Some(other) = root.text("hidden_act")?.filter(|&act| act != "silu") {
        return Err(ConfigError::invalid("hidden_act", other, "only silu is supported"));
    }
    if root.flag("mlp_bias")? == Some(true) {
        return Err(ConfigError::invalid("mlp_bias", true, "an MLP with biases is not supported"));
    }
    if root.get("quantization_config").is_some() {
        let expected = "load unquantised weights (F32, F16, BF16) or a GGUF file";
        return Err(ConfigError::invalid("quantization_config", "set", expected));
    }
    if root.flag("use_sliding_window")? == Some(true) && root.optional_size("sliding_window")?.is_some() {
        // Qwen's first `max_window_layers` layers keep full attention, so it may still be inactive.
        let full = root.optional_size("max_window_layers")?.unwrap_or(28);
        if full < root.size("num_hidden_layers")? {
            return Err(ConfigError::invalid("use_sliding_window", true, "only full attention is supported"));
        }
    }
    if let Some(Value::Array(layers)) = root.get("layer_types")
        && let Some(other) = layers.iter().find(|layer| layer.as_str() != Some("full_attention"))
    {
        return Err(ConfigError::invalid("layer_types", other, "only full_attention is supported"));
    }
    Ok(())
}

/// The base of the rotary frequencies and how they are stretched.
fn rope(root: &Fields) -> Result<(f64, Option<RopeScaling>), ConfigError> {
    let theta = root.number("rope_theta")?;
    let Some(object) = root.object("rope_parameters")?.or(root.object("rope_scaling")?) else {
        return Ok((theta.unwrap_or(DEFAULT_ROPE_THETA), None));
    };
    let theta = object.number("rope_theta")?.or(theta).unwrap_or(DEFAULT_ROPE_THETA);
    let real = |field| object.number(field)?.ok_or_else(|| missing(field));
    if let Some(part) = object.number("partial_rotary_factor")?.filter(|&part| part != 1.0) {
        return Err(ConfigError::invalid("partial_rotary_factor", part, "only 1 is supported"));
    }
    let scaling = match object.text("rope_type")?.or(object.text("type")?) {
        None | Some("default") => None,
        Some("llama3") => Some(RopeScaling::Llama3 {
            factor: real("factor")?,
            low_freq_factor: real("low_freq_factor")?,
            high_freq_factor: real("high_freq_factor")?,
            original_max_position_embeddings: object.size("original_max_position_embeddings")?,
        }),
        Some("yarn") => Some(yarn(&object, root)?),
        Some(other) => {
            return Err(ConfigError::invalid("rope_type", other, "supported: default, llama3, yarn"));
        }
    };
    Ok((theta, scaling))
}

/// The defaults are those of transformers.
fn yarn(object: &Fields, root: &Fields) -> Result<RopeScaling, ConfigError> {
    for field in ["mscale", "mscale_all_dim"] {
        if let Some(value) = object.number(field)? {
            return Err(ConfigError::invalid(field, value, "only attention_factor is supported"));
        }
    }
    if object.flag("truncate")? == Some(false) {
        return Err(ConfigError::invalid("truncate", false, "only true is supported"));
    }
    let factor = object.number("factor")?.ok_or_else(|| missing("factor"))?;
    let original = object.optional_size("original_max_position_embeddings")?;
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast: object.number("beta_fast")?.unwrap_or(32.0),
        beta_slow: object.number("beta_slow")?.unwrap_or(1.0),
        attention_factor: object.number("attention_factor")?.unwrap_or(if factor > 1.0 {
            0.1 * factor.ln() + 1.0
        } else {
            1.0
        }),
        original_max_position_embeddings: match original {
            Some(original) => original,
            None => root.size("max_position_embeddings")?,
        },
    })
}

const DEFAULT_ROPE_THETA: f64 = 10_000.0;

/// A JSON object whose reads name the field that does not fit; `null` counts as absent.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a Map<String, Value>);

impl<'a> Fields<'a> {
    fn get(&self, field: &str) -> Option<&'a Value> {
        self.0.get(field).filter(|value| !value.is_null())
    }

    fn read<T>(
        &self,
        field: &str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        convert(value)
            .map(Some)
            .ok_or_else(|| ConfigError::invalid(field, value, format!("expected {expected}")))
    }

    fn text(&self, field: &str) -> Result<Option<&'a str>, ConfigError> {
        self.read(field, "a string", Value::as_str)
    }

    fn flag(&self, field: &str) -> Result<Option<bool>, ConfigError> {
        self.read(field, "true or false", Value::as_bool)
    }

    fn number(&self, field: &str) -> Result<Option<f64>, ConfigError> {
        self.read(field, "a number", Value::as_f64)
    }

    fn object(&self, field: &str) -> Result<Option<Fields<'a>>, ConfigError> {
        self.read(field, "an object", |value| value.as_object().map(Fields))
    }

    fn optional_size(&self, field: &str) -> Result<Option<usize>, ConfigError> {
        self.read(field, "a whole number", |value| usize::try_from(value.as_u64()?).ok())
    }

    fn size(&self, field: &str) -> Result<usize, ConfigError> {
        self.optional_size(field)?.ok_or_else(|| missing(field))
    }

    /// One id or a list of ids; none when absent.
    fn ids(&self, field: &str) -> Result<Vec<u32>, ConfigError> {
        let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let ids = self.read(field, "a token id or a list of them", |value| match value {
            Value::Array(ids) => ids.iter().map(id).collect(),
            one => Some(vec![id(one)?]),
        })?;
        Ok(ids.unwrap_or_default())
    }
}

fn missing(field: &str) -> ConfigError {
    ConfigError::Missing { field: field.into() }
}
