//! The container: typed metadata and named tensors.

use std::{
    collections::BTreeMap,
    io::{Read, Seek},
    panic::{AssertUnwindSafe, catch_unwind},
};

use candle_core::{
    Device,
    quantized::gguf_file::{Content, Value},
};

use crate::{
    config::ConfigError,
    weights::{WeightsError, names::Naming, source::TensorSource},
};

/// An open GGUF file.
pub(crate) struct Gguf<R> {
    pub(super) file: String,
    reader: R,
    content: Content,
    shapes: BTreeMap<String, Vec<usize>>,
}

impl<R: Read + Seek> Gguf<R> {
    /// Reads the header; `file` is the name for messages.
    pub(crate) fn open(file: String, mut reader: R) -> Result<Self, WeightsError> {
        // candle divides by `general.alignment` unchecked: zero in a damaged file must stay an error.
        let content = catch_unwind(AssertUnwindSafe(|| Content::read(&mut reader)));
        let content = match content {
            Ok(Ok(content)) => content,
            Ok(Err(error)) => return Err(damaged(&file, &error)),
            Err(_) => return Err(damaged(&file, &"its header is invalid")),
        };
        let shapes = content.tensor_infos.iter();
        let shapes = shapes.map(|(name, info)| (name.clone(), info.shape.dims().to_vec())).collect();
        Ok(Self { file, reader, content, shapes })
    }

    /// The chat template, a Jinja text.
    pub(crate) fn chat_template(&self) -> Option<String> {
        self.text("tokenizer.chat_template").ok().flatten().map(String::from)
    }

    pub(super) fn has_tensor(&self, name: &str) -> bool {
        self.shapes.contains_key(name)
    }

    pub(super) fn text(&self, key: &str) -> Result<Option<&str>, ConfigError> {
        self.get(key, "a string", |value| value.to_string().ok().map(String::as_str))
    }

    pub(super) fn size(&self, key: &str) -> Result<Option<usize>, ConfigError> {
        self.get(key, "a whole number", integer)
    }

    pub(super) fn real(&self, key: &str) -> Result<Option<f64>, ConfigError> {
        self.get(key, "a number", |value| match value {
            Value::F32(value) => Some(f64::from(*value)),
            Value::F64(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn texts(&self, key: &str) -> Result<Option<Vec<&str>>, ConfigError> {
        self.get(key, "a list of strings", |value| {
            value.to_vec().ok()?.iter().map(|item| item.to_string().ok().map(String::as_str)).collect()
        })
    }

    pub(super) fn sizes(&self, key: &str) -> Result<Option<Vec<usize>>, ConfigError> {
        self.get(key, "a list of whole numbers", |value| value.to_vec().ok()?.iter().map(integer).collect())
    }

    fn get<'a, T>(
        &'a self,
        key: &str,
        expected: &str,
        convert: impl Fn(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some(value) = self.content.metadata.get(key) else { return Ok(None) };
        let refused =
            || ConfigError::invalid(key, format!("{:?}", value.value_type()), format!("expected {expected}"));
        convert(value).map(Some).ok_or_else(refused)
    }
}

impl<R: Read + Seek> TensorSource for Gguf<R> {
    fn naming(&self) -> Naming {
        Naming::Gguf
    }

    fn shapes(&self) -> &BTreeMap<String, Vec<usize>> {
        &self.shapes
    }

    fn read(&mut self, name: &str) -> Result<Vec<f32>, WeightsError> {
        let tensor = self.content.tensor(&mut self.reader, name, &Device::Cpu);
        let values =
            tensor.and_then(|tensor| tensor.dequantize(&Device::Cpu)?.flatten_all()?.to_vec1::<f32>());
        let values = values.map_err(|error| damaged(&self.file, &format!("tensor `{name}`: {error}")))?;
        let heads = match self.text("general.architecture") {
            Ok(Some("llama")) if name.contains(".attn_q.") => self.size("llama.attention.head_count"),
            Ok(Some("llama")) if name.contains(".attn_k.") => {
                match self.size("llama.attention.head_count_kv") {
                    Ok(None) => self.size("llama.attention.head_count"),
                    heads => heads,
                }
            }
            _ => return Ok(values),
        };
        let rows = self.shapes[name][0];
        match heads {
            Ok(Some(heads)) if heads > 0 && rows.is_multiple_of(2 * heads) => {
                Ok(split_rotary_pairs(&values, rows, heads))
            }
            _ => Err(damaged(&self.file, &format!("tensor `{name}`: {rows} rows do not divide into heads"))),
        }
    }

    fn files(&self) -> String {
        self.file.clone()
    }
}

fn integer(value: &Value) -> Option<usize> {
    match value {
        Value::I32(value) => usize::try_from(*value).ok(),
        Value::I64(value) => usize::try_from(*value).ok(),
        value => usize::try_from(value.to_u64().ok()?).ok(),
    }
}

fn damaged(file: &str, reason: &dyn std::fmt::Display) -> WeightsError {
    WeightsError::Damaged { file: file.into(), reason: reason.to_string() }
}

/// Undoes the row order of llama.cpp's Llama files: there the two components that are rotated together are neighbours in a
/// head, `(0, 1), (2, 3), …`; here, as in Hugging Face checkpoints, they are half a head apart. `values` is `[rows, …]`.
fn split_rotary_pairs(values: &[f32], rows: usize, heads: usize) -> Vec<f32> {
    let columns = values.len() / rows;
    let half = rows / heads / 2;
    let mut out = Vec::with_capacity(values.len());
    for head in 0..heads {
        for component in 0..2 {
            for pair in 0..half {
                let row = (head * half + pair) * 2 + component;
                out.extend_from_slice(&values[row * columns..][..columns]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::split_rotary_pairs;

    #[test]
    fn rotary_pairs_move_half_a_head_apart() {
        let rows: Vec<f32> = (0..8).flat_map(|row| [row as f32, row as f32 + 0.5]).collect();
        let out = split_rotary_pairs(&rows, 8, 2);
        let firsts: Vec<f32> = out.iter().step_by(2).copied().collect();
        assert_eq!(firsts, [0., 2., 1., 3., 4., 6., 5., 7.]);
        assert!(out.chunks(2).all(|row| row[1] == row[0] + 0.5));
    }
}
