//! Safetensors, written without a second copy of the model.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
};

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{DType, Tensor},
};
use half::bf16;
use safetensors::{Dtype, View};
use serde_json::json;

use super::names::{ModulePath, Naming};
use crate::decoder::Decoder;

/// The type in which weights are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    F32,
    Bf16,
}

/// A safetensors file to be written.
pub(crate) struct OutputFile {
    pub(crate) name: String,
    pub(crate) tensors: Vec<(String, OutputTensor)>,
}

/// The files that hold a decoder's weights: `model.safetensors`, or shards of at most `max_bytes` (a larger tensor gets
/// a shard of its own) and the text of their `model.safetensors.index.json`.
pub(crate) fn output_files(
    decoder: &Decoder,
    precision: Precision,
    max_bytes: usize,
) -> (Vec<OutputFile>, Option<String>) {
    // Adapters are merged into the weights that they adapt.
    let tensors = output_tensors(&decoder.clone().materialize(), Naming::HuggingFace, precision);
    let total: usize = tensors.iter().map(|(_, tensor)| tensor.data_len()).sum();
    let mut shards: Vec<Vec<(String, OutputTensor)>> = Vec::new();
    let mut room = 0;
    for (name, tensor) in tensors {
        let bytes = tensor.data_len();
        if shards.is_empty() || bytes > room {
            shards.push(Vec::new());
            room = max_bytes;
        }
        room = room.saturating_sub(bytes);
        shards.last_mut().expect("one was pushed").push((name, tensor));
    }
    if shards.len() == 1 {
        let name = "model.safetensors".into();
        return (
            shards.into_iter().map(|tensors| OutputFile { name: String::clone(&name), tensors }).collect(),
            None,
        );
    }
    let count = shards.len();
    let number =
        |(i, tensors)| OutputFile { name: format!("model-{:05}-of-{count:05}.safetensors", i + 1), tensors };
    let files: Vec<OutputFile> = shards.into_iter().enumerate().map(number).collect();
    let weight_map: BTreeMap<&str, &str> = files
        .iter()
        .flat_map(|file| file.tensors.iter().map(|(name, _)| (name.as_str(), file.name.as_str())))
        .collect();
    let index = json!({ "metadata": { "total_size": total }, "weight_map": weight_map });
    (files, Some(format!("{index:#}\n")))
}

/// The parameters that `naming` has names for.
pub(crate) fn output_tensors(
    decoder: &Decoder,
    naming: Naming,
    precision: Precision,
) -> Vec<(String, OutputTensor)> {
    let mut collector = Collector { path: ModulePath::default(), naming, precision, tensors: Vec::new() };
    decoder.visit(&mut collector);
    collector.tensors
}

/// What transformers wants to find in the header.
pub(crate) fn header_metadata() -> Option<HashMap<String, String>> {
    Some(HashMap::from([("format".into(), "pt".into())]))
}

/// A parameter in the checkpoint's layout, whose bytes are made when they are written.
pub(crate) struct OutputTensor {
    shape: Vec<usize>,
    precision: Precision,
    /// Row-major values.
    values: Box<dyn Fn() -> Vec<f32>>,
}

impl View for OutputTensor {
    fn dtype(&self) -> Dtype {
        match self.precision {
            Precision::F32 => Dtype::F32,
            Precision::Bf16 => Dtype::BF16,
        }
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = Vec::with_capacity(self.data_len());
        for value in (self.values)() {
            match self.precision {
                Precision::F32 => bytes.extend_from_slice(&value.to_le_bytes()),
                Precision::Bf16 => bytes.extend_from_slice(&bf16::from_f32(value).to_le_bytes()),
            }
        }
        bytes.into()
    }

    fn data_len(&self) -> usize {
        let bytes = match self.precision {
            Precision::F32 => 4,
            Precision::Bf16 => 2,
        };
        self.shape.iter().product::<usize>() * bytes
    }
}

struct Collector {
    path: ModulePath,
    naming: Naming,
    precision: Precision,
    tensors: Vec<(String, OutputTensor)>,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.path.enter(name, container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let Some(name) = self.path.name(self.naming) else { return };
        let transposed = self.path.is_transposed();
        let param = param.clone();
        let mut shape = param.lazy_shape().to_vec();
        if transposed {
            shape.reverse();
        }
        let values = Box::new(move || {
            let tensor = if transposed { param.val().transpose() } else { param.val() };
            tensor.into_data().convert_dtype(DType::F32).try_into_vec().expect("converted to f32")
        });
        let tensor = OutputTensor { shape, precision: self.precision, values };
        self.tensors.push((name, tensor));
    }
}
