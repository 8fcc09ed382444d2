//! Safetensors: one file or many shards, read tensor by tensor and written without a second copy of the model.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    io::{Read, Seek, SeekFrom},
};

use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{DType, Tensor},
};
use half::{bf16, f16};
use safetensors::{
    Dtype, View,
    tensor::{Metadata, TensorInfo},
};
use serde_json::json;

use super::{
    WeightsError,
    names::{ModulePath, Naming},
    source::TensorSource,
};
use crate::decoder::Decoder;

/// The type in which weights are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    F32,
    Bf16,
}

/// The tensors of all shards of a checkpoint.
pub(crate) struct Safetensors<R> {
    naming: Naming,
    shards: Vec<Shard<R>>,
    shapes: BTreeMap<String, Vec<usize>>,
    /// Which shard holds a tensor.
    places: HashMap<String, usize>,
}

struct Shard<R> {
    file: String,
    reader: R,
    /// Where the tensors' bytes begin.
    data_start: u64,
    metadata: Metadata,
}

impl<R: Read + Seek> Safetensors<R> {
    /// Reads the headers of shards given as (file name for messages, reader).
    pub(crate) fn open(
        naming: Naming,
        files: impl IntoIterator<Item = (String, R)>,
    ) -> Result<Self, WeightsError> {
        let mut all = Self { naming, shards: Vec::new(), shapes: BTreeMap::new(), places: HashMap::new() };
        for (file, reader) in files {
            let shard = Shard::open(file, reader)?;
            for (name, info) in shard.metadata.tensors() {
                if all.places.insert(name.clone(), all.shards.len()).is_some() {
                    let reason = format!("tensor `{name}` is in another shard too");
                    return Err(WeightsError::Damaged { file: shard.file, reason });
                }
                all.shapes.insert(name, info.shape.clone());
            }
            all.shards.push(shard);
        }
        Ok(all)
    }
}

impl<R: Read + Seek> Shard<R> {
    fn open(file: String, mut reader: R) -> Result<Self, WeightsError> {
        let io = |source| WeightsError::Io { path: file.clone(), source };
        let found = reader.seek(SeekFrom::End(0)).map_err(io)?;
        let damaged = |reason: String| WeightsError::Damaged { file: file.clone(), reason };
        if found < 8 {
            return Err(damaged(format!("{found} bytes long, too short for a safetensors header")));
        }
        reader.rewind().map_err(io)?;
        let mut length = [0; 8];
        reader.read_exact(&mut length).map_err(io)?;
        let length = u64::from_le_bytes(length);
        if length > found - 8 {
            return Err(damaged(format!(
                "its header claims {length} bytes, {} are there; truncated, or not a safetensors file",
                found - 8
            )));
        }
        let mut header = vec![0; length as usize];
        reader.read_exact(&mut header).map_err(io)?;
        let metadata: Metadata = serde_json::from_slice(&header)
            .map_err(|error| damaged(format!("its header is invalid: {error}")))?;
        let data_start = 8 + length;
        let expected = data_start + metadata.data_len() as u64;
        if found != expected {
            return Err(WeightsError::Length { file, found, expected });
        }
        Ok(Self { file, reader, data_start, metadata })
    }

    fn read(&mut self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let TensorInfo { dtype, data_offsets: (start, end), .. } =
            self.metadata.info(name).expect("the caller looked the shard up by this name");
        let io = |source| WeightsError::Io { path: self.file.clone(), source };
        self.reader.seek(SeekFrom::Start(self.data_start + *start as u64)).map_err(io)?;
        let mut bytes = vec![0; end - start];
        self.reader.read_exact(&mut bytes).map_err(io)?;
        let words = bytes.chunks_exact(2).map(|word| [word[0], word[1]]);
        match dtype {
            Dtype::F32 => Ok(bytes
                .chunks_exact(4)
                .map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]]))
                .collect()),
            Dtype::F16 => Ok(words.map(|word| f16::from_le_bytes(word).to_f32()).collect()),
            Dtype::BF16 => Ok(words.map(|word| bf16::from_le_bytes(word).to_f32()).collect()),
            other => Err(WeightsError::Type { name: name.into(), found: format!("{other:?}") }),
        }
    }
}

impl<R: Read + Seek> TensorSource for Safetensors<R> {
    fn naming(&self) -> Naming {
        self.naming
    }

    fn shapes(&self) -> &BTreeMap<String, Vec<usize>> {
        &self.shapes
    }

    fn read(&mut self, name: &str) -> Result<Vec<f32>, WeightsError> {
        self.shards[self.places[name]].read(name)
    }

    fn files(&self) -> String {
        self.shards.iter().map(|shard| shard.file.as_str()).collect::<Vec<_>>().join(", ")
    }
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
