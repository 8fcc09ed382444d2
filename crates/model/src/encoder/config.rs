//! The shape of an encoder, and how it makes a vector of a text.

use crate::config::ConfigError;
use serde_json::Value;

/// What a folder of sentence-transformers says about its encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct EncoderConfig {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub intermediate_size: usize,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub layer_norm_eps: f64,
    /// Longest text, in tokens, its two marks included; more is cut off.
    pub max_seq_length: usize,
    pub pooling: Pooling,
    /// Whether vectors are scaled to length 1.
    pub normalize: bool,
    /// What is put before a query, such as `query: `.
    pub query_prefix: String,
    /// What is put before a passage.
    pub passage_prefix: String,
}

/// How the last hidden states of a text's tokens become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// That of the first token.
    Cls,
}

/// The texts of a folder's files; only the first must be there.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ConfigFiles<'a> {
    /// `config.json`
    pub(crate) model: &'a str,
    /// `sentence_bert_config.json`
    pub(crate) sentence: Option<&'a str>,
    /// `1_Pooling/config.json`
    pub(crate) pooling: Option<&'a str>,
    /// `modules.json`
    pub(crate) modules: Option<&'a str>,
    /// `config_sentence_transformers.json`
    pub(crate) prompts: Option<&'a str>,
}

impl EncoderConfig {
    /// Without files that say otherwise: mean, scaled to length 1, no prefixes, as long as there are positions.
    ///
    /// # Errors
    /// On fields that are missing or out of range, and on networks, activations and poolings that are not supported.
    pub(crate) fn from_files(files: ConfigFiles<'_>) -> Result<Self, ConfigError> {
        let model: Value = serde_json::from_str(files.model)?;
        let optional = |text: Option<&str>| text.map_or(Ok(Value::Null), serde_json::from_str);
        expect(&model, "model_type", "bert", "")?;
        expect(&model, "hidden_act", "gelu", "gelu")?;
        expect(&model, "position_embedding_type", "absolute", "absolute")?;
        let size = |field: &str| match model[field].as_u64() {
            Some(size) if size > 0 => Ok(size as usize),
            _ if model[field].is_null() => Err(ConfigError::Missing { field: field.into() }),
            _ => Err(ConfigError::invalid(field, &model[field], "expected a positive integer")),
        };
        let max_position_embeddings = size("max_position_embeddings")?;
        let sentence = optional(files.sentence)?;
        let longest = sentence["max_seq_length"].as_u64().map_or(max_position_embeddings, |n| n as usize);
        let modules = optional(files.modules)?;
        let is_normalize =
            |module: &Value| module["type"].as_str().is_some_and(|name| name.ends_with("Normalize"));
        let prompts = optional(files.prompts)?;
        let prefix = |names: &[&str]| -> String {
            let found = names.iter().find_map(|name| prompts["prompts"][*name].as_str());
            found.unwrap_or_default().to_string()
        };
        let config = Self {
            vocab_size: size("vocab_size")?,
            hidden_size: size("hidden_size")?,
            num_hidden_layers: size("num_hidden_layers")?,
            num_attention_heads: size("num_attention_heads")?,
            intermediate_size: size("intermediate_size")?,
            max_position_embeddings,
            type_vocab_size: size("type_vocab_size")?,
            layer_norm_eps: model["layer_norm_eps"].as_f64().unwrap_or(1e-12),
            max_seq_length: longest.min(max_position_embeddings),
            pooling: pooling(&optional(files.pooling)?)?,
            normalize: modules.as_array().is_none_or(|modules| modules.iter().any(is_normalize)),
            query_prefix: prefix(&["query"]),
            passage_prefix: prefix(&["passage", "document"]),
        };
        if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            let expected = format!("it must divide hidden_size = {}", config.hidden_size);
            return Err(ConfigError::invalid("num_attention_heads", config.num_attention_heads, expected));
        }
        if config.max_seq_length < 2 {
            return Err(ConfigError::invalid("max_seq_length", config.max_seq_length, "two marks must fit"));
        }
        Ok(config)
    }
}

/// Refuses a text field that is anything but `supported`; where it is absent it is `default`.
fn expect(model: &Value, field: &str, supported: &str, default: &str) -> Result<(), ConfigError> {
    let found = model.get(field).map_or(default, |value| value.as_str().unwrap_or_default());
    let expected = format!("supported: {supported}");
    if found == supported { Ok(()) } else { Err(ConfigError::invalid(field, format!("{found:?}"), expected)) }
}

fn pooling(config: &Value) -> Result<Pooling, ConfigError> {
    let modes = config.as_object().into_iter().flatten();
    let chosen: Vec<&str> = modes
        .filter(|(key, value)| key.starts_with("pooling_mode_") && value.as_bool() == Some(true))
        .map(|(key, _)| key.as_str())
        .collect();
    match chosen[..] {
        [] | ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
        ["pooling_mode_cls_token"] => Ok(Pooling::Cls),
        _ => Err(ConfigError::invalid(
            "pooling_mode",
            chosen.join(", "),
            "supported: mean_tokens or cls_token",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = r#"{"model_type": "bert", "hidden_act": "gelu", "vocab_size": 9, "hidden_size": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 4, "max_position_embeddings": 64,
        "type_vocab_size": 2}"#;

    #[test]
    fn the_folder_decides() {
        let plain = EncoderConfig::from_files(ConfigFiles { model: MODEL, ..Default::default() }).unwrap();
        assert_eq!((plain.pooling, plain.normalize, plain.max_seq_length), (Pooling::Mean, true, 64));
        assert_eq!((plain.query_prefix.as_str(), plain.passage_prefix.as_str()), ("", ""));
        let told = EncoderConfig::from_files(ConfigFiles {
            model: MODEL,
            sentence: Some(r#"{"max_seq_length": 32}"#),
            pooling: Some(r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#),
            modules: Some(r#"[{"type": "sentence_transformers.models.Pooling"}]"#),
            prompts: Some(r#"{"prompts": {"query": "query: ", "document": "passage: "}}"#),
        })
        .unwrap();
        assert_eq!((told.pooling, told.normalize, told.max_seq_length), (Pooling::Cls, false, 32));
        assert_eq!((told.query_prefix.as_str(), told.passage_prefix.as_str()), ("query: ", "passage: "));
    }

    #[test]
    fn what_is_not_supported_is_named() {
        let check = |from: &str, to: &str, expected: &str| {
            let model = MODEL.replace(from, to);
            let files = ConfigFiles { model: &model, ..Default::default() };
            let error = EncoderConfig::from_files(files).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("\"bert\"", "\"roberta\"", "`model_type` is \"roberta\"; supported: bert");
        check("\"gelu\"", "\"relu\"", "`hidden_act` is \"relu\"");
        check("\"hidden_size\": 8,", "", "`hidden_size` is missing");
        check("\"num_attention_heads\": 2", "\"num_attention_heads\": 3", "it must divide hidden_size = 8");
        let pooling = Some(r#"{"pooling_mode_max_tokens": true}"#);
        let files = ConfigFiles { model: MODEL, pooling, ..Default::default() };
        assert!(
            EncoderConfig::from_files(files).unwrap_err().to_string().contains("pooling_mode_max_tokens")
        );
    }
}
