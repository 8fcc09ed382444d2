//! LoRA adapters as PEFT keeps them: `adapter_config.json` and `adapter_model.safetensors`.

use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::Path,
};

use serde_json::json;

use super::{
    Precision, WeightsError,
    error::io_error,
    names::Naming,
    output::{header_metadata, output_tensors},
    safetensors::Safetensors,
    source::fill,
};
use crate::{decoder::Decoder, lora::Lora};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";

/// Writes the adapters of `decoder` as a folder that PEFT loads on top of `base`, the path or hub id of the model that
/// they adapt, and for an id its `revision`.
///
/// # Errors
/// Names the file that could not be written.
pub fn save_adapter(
    folder: &Path,
    decoder: &Decoder,
    lora: &Lora,
    base: &str,
    revision: Option<&str>,
) -> Result<(), WeightsError> {
    fs::create_dir_all(folder).map_err(io_error(folder))?;
    let config = json!({
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "revision": revision,
        "r": lora.rank,
        "lora_alpha": lora.alpha,
        "target_modules": lora.target_modules,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": false,
        "use_rslora": false,
        "inference_mode": true,
    });
    let path = folder.join(CONFIG);
    fs::write(&path, format!("{config:#}\n")).map_err(io_error(&path))?;
    let path = folder.join(WEIGHTS);
    let tensors = output_tensors(decoder, Naming::Peft, Precision::F32);
    safetensors::serialize_to_file(tensors, header_metadata(), &path)
        .map_err(|error| io_error(&path)(io::Error::other(error)))
}

/// Fills the adapters of `decoder` from a folder that [`save_adapter`] or PEFT wrote.
///
/// # Errors
/// Names the file, and the adapter that is missing, left over or of another shape.
pub fn load_adapter(folder: &Path, decoder: Decoder) -> Result<Decoder, WeightsError> {
    let path = folder.join(WEIGHTS);
    let file = File::open(&path).map_err(io_error(&path))?;
    let files = [(path.display().to_string(), BufReader::new(file))];
    fill(decoder, &mut Safetensors::open(Naming::Peft, files)?)
}
