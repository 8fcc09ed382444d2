//! Safetensors, read: one file or many shards, tensor by tensor.

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read, Seek, SeekFrom},
};

use half::{bf16, f16};
use safetensors::{
    Dtype,
    tensor::{Metadata, TensorInfo},
};

use super::{WeightsError, names::Naming, source::TensorSource};

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
