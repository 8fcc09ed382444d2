//! Models on the file system.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, BufReader},
    path::Path,
};

use burn::tensor::Device;
use serde_json::{Value, json};

use super::{
    HuggingFaceFiles, LoadedModel, Precision, WeightsError,
    error::io_error,
    gguf::Gguf,
    output::{header_metadata, output_files},
};
use crate::{
    config::{ConfigError, DecoderConfig},
    decoder::Decoder,
};

/// Reads the model at `path`, a Hugging Face folder or a `.gguf` file, onto `device`.
///
/// Memory peaks at the f32 weights and one tensor more.
///
/// # Errors
/// Names the file and what in it does not fit.
pub fn load(path: &Path, device: &Device) -> Result<LoadedModel, WeightsError> {
    if is_gguf(path) {
        let file = File::open(path).map_err(io_error(path))?;
        return LoadedModel::from_gguf(&path.display().to_string(), BufReader::new(file), device);
    }
    let text = |name| read_text(path, name);
    let no_model = || WeightsError::NoModel { path: path.display().to_string() };
    let config_json = text("config.json")?.ok_or_else(no_model)?;
    let generation_config_json = text("generation_config.json")?;
    let tokenizer_json = text("tokenizer.json")?.ok_or_else(no_model)?;
    let chat_template = match text("chat_template.jinja")? {
        Some(template) => Some(template),
        None => text("tokenizer_config.json")?.and_then(|text| chat_template(&text)),
    };
    let names = match text(INDEX)? {
        Some(index) => shard_names(&index)?,
        None => BTreeSet::from(["model.safetensors".into()]),
    };
    let open = |name: String| {
        let path = path.join(&name);
        File::open(&path).map(|file| (name, file)).map_err(io_error(&path))
    };
    let files = HuggingFaceFiles {
        config_json: &config_json,
        generation_config_json: generation_config_json.as_deref(),
        tokenizer_json: tokenizer_json.as_bytes(),
        chat_template,
        weights: names.into_iter().map(open).collect::<Result<_, _>>()?,
    };
    LoadedModel::from_hugging_face(files, device)
}

/// The shape of the model at `path`, of which nothing else is read.
///
/// # Errors
/// As [`load`].
pub fn load_config(path: &Path) -> Result<DecoderConfig, WeightsError> {
    if is_gguf(path) {
        let file = File::open(path).map_err(io_error(path))?;
        return Gguf::open(path.display().to_string(), BufReader::new(file))?.config();
    }
    let no_model = || WeightsError::NoModel { path: path.display().to_string() };
    let text = read_text(path, "config.json")?.ok_or_else(no_model)?;
    DecoderConfig::from_hf(&text)
        .map_err(|source| WeightsError::Config { file: "config.json".into(), source })
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"))
}

/// A file of the folder, if it is there.
fn read_text(folder: &Path, name: &str) -> Result<Option<String>, WeightsError> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error(&path)(error)),
    }
}

impl LoadedModel {
    /// Writes a Hugging Face folder, which [`load`] and transformers read. `folder` is made if need be; files of the same
    /// name are overwritten. Weights above `max_shard_bytes` are split into shards.
    ///
    /// # Errors
    /// Names the file that could not be written.
    pub fn save(
        &self,
        folder: &Path,
        precision: Precision,
        max_shard_bytes: usize,
    ) -> Result<(), WeightsError> {
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(io_error(&path))
        };
        write("config.json", &self.config.to_hf())?;
        write("generation_config.json", &self.config.to_hf_generation())?;
        write("tokenizer.json", &self.tokenizer.to_json())?;
        write("tokenizer_config.json", &self.tokenizer_config())?;
        if let Some(template) = &self.chat_template {
            write("chat_template.jinja", template)?;
        }
        save_weights(&self.decoder, folder, precision, max_shard_bytes)
    }

    /// What transformers must know besides `tokenizer.json`.
    fn tokenizer_config(&self) -> String {
        let token = |id: Option<&u32>| id.map(|&id| self.tokenizer.decode(&[id]));
        let config = json!({
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": token(self.config.bos_token_id.as_ref()),
            "eos_token": token(self.config.eos_token_ids.first()),
            "clean_up_tokenization_spaces": false,
            "model_max_length": self.config.max_position_embeddings,
        });
        format!("{config:#}\n")
    }
}

const INDEX: &str = "model.safetensors.index.json";

fn save_weights(
    decoder: &Decoder,
    folder: &Path,
    precision: Precision,
    max_shard_bytes: usize,
) -> Result<(), WeightsError> {
    let (files, index) = output_files(decoder, precision, max_shard_bytes);
    for file in files {
        let path = folder.join(file.name);
        safetensors::serialize_to_file(file.tensors, header_metadata(), &path)
            .map_err(|error| io_error(&path)(io::Error::other(error)))?;
    }
    let path = folder.join(INDEX);
    match index {
        Some(index) => fs::write(&path, index).map_err(io_error(&path)),
        // One that an earlier save left would be believed.
        None if path.exists() => fs::remove_file(&path).map_err(io_error(&path)),
        None => Ok(()),
    }
}

/// The shards that the text of a `model.safetensors.index.json` names.
///
/// # Errors
/// On a damaged index, and on names that are no plain file names.
pub fn shard_names(index: &str) -> Result<BTreeSet<String>, WeightsError> {
    let refused = |source| WeightsError::Config { file: INDEX.into(), source };
    let index: Value = serde_json::from_str(index).map_err(|error| refused(error.into()))?;
    let Some(map) = index["weight_map"].as_object() else {
        return Err(refused(ConfigError::Missing { field: "weight_map".into() }));
    };
    let name = |value: &Value| match value.as_str() {
        // A name with a folder in it would read outside of the model's folder.
        Some(name) if Path::new(name).file_name() == Some(name.as_ref()) => Ok(name.to_string()),
        _ => Err(refused(ConfigError::invalid("weight_map", value, "expected file names"))),
    };
    map.values().map(name).collect()
}

fn chat_template(tokenizer_config: &str) -> Option<String> {
    let config: Value = serde_json::from_str(tokenizer_config).ok()?;
    config["chat_template"].as_str().map(String::from)
}
