//! The tensors of a BERT checkpoint, whatever task it was saved for.

use super::{WeightsError, names::Naming, safetensors::Safetensors, source::TensorSource};
use std::collections::BTreeMap;
use std::io::{Read, Seek};

/// Tensors by their name without the `bert.` that models with a head put before it.
pub(crate) struct BertTensors<R> {
    tensors: Safetensors<R>,
    shapes: BTreeMap<String, Vec<usize>>,
}

const PREFIX: &str = "bert.";

impl<R: Read + Seek> BertTensors<R> {
    pub(crate) fn new(tensors: Safetensors<R>) -> Self {
        let bare = |(name, shape): (&String, &Vec<usize>)| {
            (name.strip_prefix(PREFIX).unwrap_or(name).to_string(), shape.clone())
        };
        let shapes = tensors.shapes().iter().map(bare).collect();
        Self { tensors, shapes }
    }
}

impl<R: Read + Seek> TensorSource for BertTensors<R> {
    fn naming(&self) -> Naming {
        Naming::Bert
    }

    fn shapes(&self) -> &BTreeMap<String, Vec<usize>> {
        &self.shapes
    }

    fn read(&mut self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let prefixed = format!("{PREFIX}{name}");
        let is_prefixed = self.tensors.shapes().contains_key(&prefixed);
        self.tensors.read(if is_prefixed { &prefixed } else { name })
    }

    fn files(&self) -> String {
        self.tensors.files()
    }
}
