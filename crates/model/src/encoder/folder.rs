//! Encoders on the file system.

use super::config::{ConfigFiles, EncoderConfig};
use super::sentence::SentenceEncoder;
use crate::tokenizer::{Tokenizer, TokenizerError};
use crate::weights::{BertTensors, Naming, Safetensors, WeightsError, check_ids, fill, io_error};
use burn::tensor::Device;
use std::fs::{self, File};
use std::io;
use std::path::Path;

impl SentenceEncoder {
    /// Reads the encoder in a folder of sentence-transformers, or of transformers alone.
    ///
    /// # Errors
    /// Names the file and what in it does not fit.
    pub fn load(folder: &Path, device: &Device) -> Result<Self, WeightsError> {
        let text = |name: &str| match fs::read_to_string(folder.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&folder.join(name))(error)),
        };
        let no_model = || WeightsError::NoModel { path: folder.display().to_string() };
        let model = text("config.json")?.ok_or_else(no_model)?;
        let (sentence, modules) = (text("sentence_bert_config.json")?, text("modules.json")?);
        let (pooling, prompts) = (text("1_Pooling/config.json")?, text("config_sentence_transformers.json")?);
        let config = EncoderConfig::from_files(ConfigFiles {
            model: &model,
            sentence: sentence.as_deref(),
            pooling: pooling.as_deref(),
            modules: modules.as_deref(),
            prompts: prompts.as_deref(),
        })
        .map_err(|source| WeightsError::Config {
            file: folder.join("config.json").display().to_string(),
            source,
        })?;

        let file = folder.join("tokenizer.json").display().to_string();
        let refused = |source| WeightsError::Tokenizer { file: file.clone(), source };
        let json = text("tokenizer.json")?.ok_or_else(no_model)?;
        let tokenizer = Tokenizer::from_bytes(json.as_bytes()).map_err(refused)?;
        check_ids(&file, &tokenizer, config.vocab_size)?;
        let mark = |token: &str| {
            let missing = || TokenizerError::Invalid(format!("it has no token {token}"));
            tokenizer.token_id(token).ok_or_else(missing).map_err(refused)
        };
        let marks = [mark("[CLS]")?, mark("[SEP]")?];

        let weights = folder.join("model.safetensors");
        let opened = File::open(&weights).map_err(io_error(&weights))?;
        let files = [(weights.display().to_string(), opened)];
        let mut tensors = BertTensors::new(Safetensors::open(Naming::Bert, files)?);
        let network = fill(config.init(device), &mut tensors)?;
        Ok(Self { config, network, tokenizer, marks })
    }
}
