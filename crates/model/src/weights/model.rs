//! A model: shape, weights and tokenizer together.

use std::io::{Read, Seek};

use burn::tensor::Device;

use super::{WeightsError, gguf::Gguf, names::Naming, safetensors::Safetensors, source::fill};
use crate::{config::DecoderConfig, decoder::Decoder, tokenizer::Tokenizer};

/// Everything that a checkpoint holds.
#[derive(Debug)]
pub struct LoadedModel {
    pub config: DecoderConfig,
    pub decoder: Decoder,
    pub tokenizer: Tokenizer,
    /// How a conversation is laid out as a prompt, a Jinja text.
    pub chat_template: Option<String>,
}

/// The files of a Hugging Face folder.
pub struct HuggingFaceFiles<'a, R> {
    pub config_json: &'a str,
    pub generation_config_json: Option<&'a str>,
    pub tokenizer_json: &'a [u8],
    pub chat_template: Option<String>,
    /// The safetensors files: name, for messages, and contents.
    pub weights: Vec<(String, R)>,
}

impl LoadedModel {
    /// Reads a model from the files of a Hugging Face folder, wherever they are.
    ///
    /// # Errors
    /// Names the file and what in it does not fit.
    pub fn from_hugging_face<R: Read + Seek>(
        files: HuggingFaceFiles<'_, R>,
        device: &Device,
    ) -> Result<Self, WeightsError> {
        let config_error = |file: &str, source| WeightsError::Config { file: file.into(), source };
        let mut config = DecoderConfig::from_hf(files.config_json)
            .map_err(|source| config_error("config.json", source))?;
        if let Some(text) = files.generation_config_json {
            config
                .merge_generation_config(text)
                .map_err(|source| config_error("generation_config.json", source))?;
        }
        let file = "tokenizer.json";
        let tokenizer = Tokenizer::from_bytes(files.tokenizer_json)
            .map_err(|source| WeightsError::Tokenizer { file: file.into(), source })?;
        check_ids(file, &tokenizer, config.vocab_size)?;
        let mut source = Safetensors::open(Naming::HuggingFace, files.weights)?;
        let decoder = fill(config.init(device), &mut source)?;
        Ok(Self { config, decoder, tokenizer, chat_template: files.chat_template })
    }

    /// Reads a model from a GGUF file, dequantised; `file` is its name for messages.
    ///
    /// # Errors
    /// Names the file and what in it does not fit.
    pub fn from_gguf<R: Read + Seek>(file: &str, reader: R, device: &Device) -> Result<Self, WeightsError> {
        let mut source = Gguf::open(file.into(), reader)?;
        let config = source.config()?;
        let tokenizer = source.tokenizer()?;
        check_ids(file, &tokenizer, config.vocab_size)?;
        let chat_template = source.chat_template();
        let decoder = fill(config.init(device), &mut source)?;
        Ok(Self { config, decoder, tokenizer, chat_template })
    }
}

/// Refuses a tokenizer with more ids than the embedding has rows.
pub(crate) fn check_ids(file: &str, tokenizer: &Tokenizer, vocab_size: usize) -> Result<(), WeightsError> {
    let ids = tokenizer.vocab_size();
    if ids > vocab_size {
        return Err(WeightsError::TokenizerTooLarge {
            file: file.into(),
            largest: ids as u32 - 1,
            vocab_size,
        });
    }
    Ok(())
}
