//! Causal self-attention with grouped queries.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Tensor};

use crate::cache::LayerCache;
use crate::config::DecoderConfig;
use crate::decoder::{linear, product, project};
use crate::norm::RmsNorm;
use crate::rope::{Rope, Rotation};

/// Grouped-query attention (Ainslie et al., arXiv 2305.13245): `softmax(q kᵀ / sqrt(head_dim) + mask) v`.
#[derive(Module, Debug)]
pub struct Attention {
    pub q_proj: Linear,
    pub k_proj: Linear,
    pub v_proj: Linear,
    pub o_proj: Linear,
    /// Qwen3: queries and keys are normalised per head before the rotation.
    pub q_norm: Option<RmsNorm>,
    pub k_norm: Option<RmsNorm>,
    num_attention_heads: usize,
    pub(crate) num_key_value_heads: usize,
    pub(crate) head_dim: usize,
}

/// Where the tokens of one forward pass stand, computed once and used by every layer.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    pub(crate) rows: usize,
    /// New tokens a row, padding included.
    pub(crate) width: usize,
    rotation: Rotation,
    /// `[rows or 1, 1, width, 1, keys]`: 0 where a query may look, [`HIDDEN`] elsewhere.
    mask: Tensor<5>,
}

/// Finite, so that a query with nothing to look at averages instead of turning into NaN.
pub(crate) const HIDDEN: f32 = -1e9;

/// So many queries are computed together, with the keys that the last of them sees: what is later than a block costs
/// nothing.
pub(crate) const BLOCK: usize = 64;

impl Placement {
    /// The new tokens of each row stand at `starts[row]`, `starts[row] + 1`, …; a query looks at the keys `0..keys`
    /// up to its own position. Rows that all start at the same place share one mask.
    pub(crate) fn new(starts: &[usize], width: usize, keys: usize, rope: &Rope, device: &Device) -> Self {
        let distinct = if starts.iter().all(|start| *start == starts[0]) { &starts[..1] } else { starts };
        let positions: Vec<f32> = distinct
            .iter()
            .flat_map(|start| (*start..start + width).map(|position| position as f32))
            .collect();
        let numbers = |values: Vec<f32>| Tensor::<1>::from_data(values.as_slice(), (device, DType::F32));
        let positions = numbers(positions).reshape([distinct.len(), width]);
        let keys = numbers((0..keys).map(|key| key as f32).collect()).reshape([1, 1, 1, 1, keys]);
        let future = keys.greater(positions.clone().reshape([distinct.len(), 1, width, 1, 1]));
        let mask = Tensor::zeros(future.shape(), (device, DType::F32)).mask_fill(future, HIDDEN);
        Self { rows: starts.len(), width, rotation: rope.at(positions), mask }
    }
}

impl Attention {
    pub(crate) fn init(config: &DecoderConfig, device: &Device) -> Self {
        let queries = config.num_attention_heads * config.head_dim;
        let keys = config.num_key_value_heads * config.head_dim;
        let norm = || config.qk_norm.then(|| RmsNorm::init(config.head_dim, config.rms_norm_eps, device));
        Self {
            q_proj: linear(config.hidden_size, queries, config.qkv_bias, device),
            k_proj: linear(config.hidden_size, keys, config.qkv_bias, device),
            v_proj: linear(config.hidden_size, keys, config.qkv_bias, device),
            o_proj: linear(queries, config.hidden_size, config.o_bias, device),
            q_norm: norm(),
            k_norm: norm(),
            num_attention_heads: config.num_attention_heads,
            num_key_value_heads: config.num_key_value_heads,
            head_dim: config.head_dim,
        }
    }

    /// `[rows * width, hidden]` to the same shape. With a cache the new keys and values are appended to it, and the
    /// queries look at all that it holds.
    pub(crate) fn forward(
        &self,
        x: Tensor<2>,
        placement: &Placement,
        cache: Option<LayerCache<'_>>,
    ) -> Tensor<2> {
        let Placement { rows, width, ref rotation, ref mask } = *placement;
        let (heads, shared, dim) = (self.num_attention_heads, self.num_key_value_heads, self.head_dim);
        let split = |x: Tensor<2>, heads: usize| x.reshape([rows, width, heads, dim]);

        let q = split(project(&self.q_proj, x.clone()), heads);
        let k = split(project(&self.k_proj, x.clone()), shared);
        let v = split(project(&self.v_proj, x), shared);
        let q = self.q_norm.iter().fold(q, |q, norm| norm.forward(q));
        let k = self.k_norm.iter().fold(k, |k, norm| norm.forward(k));
        let q = rotation.apply(q).mul_scalar((dim as f64).powf(-0.5));
        let (k, v) = (rotation.apply(k).swap_dims(1, 2), v.swap_dims(1, 2));
        let (k, v) = match cache {
            Some(cache) => cache.append(k, v),
            None => (k, v),
        };
        let keys = k.dims()[2];

        // The query heads that share a key head become the rows of one product, so no key is copied per head.
        let group = heads / shared;
        let q = q.reshape([rows, width, shared, group * dim]).swap_dims(1, 2);
        let q = q.reshape([rows, shared, width * group, dim]);
        let mixed = (0..width).step_by(BLOCK).map(|start| {
            let queries = BLOCK.min(width - start);
            let seen = keys - width + start + queries;
            let q = q.clone().narrow(2, start * group, queries * group);
            let k = k.clone().narrow(2, 0, seen);
            let v = v.clone().narrow(2, 0, seen);
            let mask = mask.clone().narrow(2, start, queries).narrow(4, 0, seen);
            let scores = product(q, k.swap_dims(2, 3));
            let dtype = scores.dtype();
            let scores = scores.reshape([rows, shared, queries, group, seen]).cast(DType::F32) + mask;
            let largest = scores.clone().detach().max_dim(4);
            let weights = (scores - largest).exp().reshape([rows, shared, queries * group, seen]);
            // Normalised after the product, where there are fewer numbers.
            let total = weights.clone().sum_dim(3);
            let mixed = weights.cast(dtype).matmul(v);
            (mixed.cast(DType::F32) * total.recip()).cast(dtype)
        });
        let mixed = Tensor::cat(mixed.collect(), 2).reshape([rows, shared, width, group * dim]);
        project(&self.o_proj, mixed.swap_dims(1, 2).reshape([rows * width, heads * dim]))
    }
}
