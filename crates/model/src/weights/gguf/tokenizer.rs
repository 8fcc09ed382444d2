//! A byte-level BPE tokenizer from GGUF metadata.

use std::io::{Read, Seek};

use serde_json::{Value, json};

use super::file::Gguf;
use crate::{config::ConfigError, tokenizer::Tokenizer, weights::WeightsError};

/// The split of GPT-2, by which words are found before merging.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Qwen2: contractions in any case, digits one by one.
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// Llama 3: as Qwen2, digits in threes.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Token types of the GGUF specification that matter here.
const CONTROL: usize = 3;
const USER_DEFINED: usize = 4;
const UNUSED: usize = 5;

impl<R: Read + Seek> Gguf<R> {
    /// The tokenizer in this file, rebuilt as the `tokenizer.json` that it was converted from.
    pub(crate) fn tokenizer(&self) -> Result<Tokenizer, WeightsError> {
        let named = |source| WeightsError::Config { file: self.file.clone(), source };
        let json = self.tokenizer_json().map_err(named)?;
        Tokenizer::from_bytes(json.to_string().as_bytes())
            .map_err(|source| WeightsError::Tokenizer { file: self.file.clone(), source })
    }

    fn tokenizer_json(&self) -> Result<Value, ConfigError> {
        let missing = |field: &str| ConfigError::Missing { field: field.into() };
        let kind = self.text("tokenizer.ggml.model")?.ok_or_else(|| missing("tokenizer.ggml.model"))?;
        if kind != "gpt2" {
            let expected = "only byte-level BPE (gpt2) is supported; load the Hugging Face folder";
            return Err(ConfigError::invalid("tokenizer.ggml.model", kind, expected));
        }
        // How text is split, whether it is normalised, and whether a whole word in the vocabulary skips the merges.
        let pre = self.text("tokenizer.ggml.pre")?.unwrap_or("default");
        let digits = json!({ "type": "Digits", "individual_digits": true });
        let (mut pretokenizers, normalizer, ignore_merges) = match pre {
            "default" | "gpt-2" => (vec![split(GPT2)], Value::Null, false),
            "smollm" => (vec![digits, split(GPT2)], Value::Null, false),
            "qwen2" => (vec![split(QWEN2)], json!({ "type": "NFC" }), false),
            "llama-bpe" => (vec![split(LLAMA3)], Value::Null, true),
            other => {
                let expected =
                    "supported: default, gpt-2, smollm, qwen2, llama-bpe; load the Hugging Face folder";
                return Err(ConfigError::invalid("tokenizer.ggml.pre", other, expected));
            }
        };
        let tokens = self.texts("tokenizer.ggml.tokens")?.ok_or_else(|| missing("tokenizer.ggml.tokens"))?;
        let merges = self.texts("tokenizer.ggml.merges")?.ok_or_else(|| missing("tokenizer.ggml.merges"))?;
        let types = self.sizes("tokenizer.ggml.token_type")?.unwrap_or_else(|| vec![1; tokens.len()]);
        if types.len() != tokens.len() {
            let expected = format!("expected as many as the {} tokens", tokens.len());
            return Err(ConfigError::invalid("tokenizer.ggml.token_type", types.len(), expected));
        }
        let used = || tokens.iter().zip(&types).enumerate().filter(|(_, (_, kind))| **kind != UNUSED);
        let vocab: serde_json::Map<String, Value> =
            used().map(|(id, (token, _))| (token.to_string(), id.into())).collect();
        let added: Vec<Value> = used()
            .filter(|(_, (_, kind))| matches!(**kind, CONTROL | USER_DEFINED))
            .map(|(id, (token, kind))| {
                json!({
                    "id": id, "content": token, "special": *kind == CONTROL,
                    "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                })
            })
            .collect();
        let byte_level = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false });
        pretokenizers.push(byte_level.clone());
        Ok(json!({
            "version": "1.0",
            "added_tokens": added,
            "normalizer": normalizer,
            "pre_tokenizer": { "type": "Sequence", "pretokenizers": pretokenizers },
            "post_processor": null,
            "decoder": byte_level,
            "model": { "type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": ignore_merges },
        }))
    }
}

fn split(regex: &str) -> Value {
    json!({ "type": "Split", "pattern": { "Regex": regex }, "behavior": "Isolated", "invert": false })
}
