//! Causal self-attention with grouped queries.

use burn::module::Module;
use burn::nn::Linear;
use burn::tensor::{DType, Device, Int, Tensor};

use crate::cache::LayerCache;
use crate::config::DecoderConfig;
use crate::decoder::{linear, product, project};
use crate::log_probs::ids;
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

/// Where the tokens of some rows of a forward pass stand, computed once and used by every layer.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    rows: usize,
    /// New tokens a row, padding included.
    width: usize,
    rotation: Rotation,
    /// `[rows or 1, 1, width, 1, keys]`: 0 where a query may look, [`HIDDEN`] elsewhere.
    mask: Tensor<5>,
    inherited: Option<Inherited>,
}

/// Keys and values that rows take over from the rows before them in the pass.
#[derive(Debug, Clone)]
struct Inherited {
    /// Of each row, one of those of the placement before, `[rows]`.
    parents: Tensor<1, Int>,
    /// So many of the parents' keys.
    keys: usize,
}

/// Finite, so that a query with nothing to look at averages instead of turning into NaN.
pub(crate) const HIDDEN: f32 = -1e9;

/// So many queries are computed together, with the keys that the last of them sees: what is later than a block costs
/// nothing.
pub(crate) const BLOCK: usize = 64;

/// Where a key that no query may look at stands.
pub(crate) const NOWHERE: f32 = f32::MAX;

impl Placement {
    /// The new tokens of each row stand at `starts[row]`, `starts[row] + 1`, …; a query looks at the keys `0..keys`
    /// up to its own position. Rows that all start at the same place share one mask.
    pub(crate) fn new(starts: &[usize], width: usize, keys: usize, rope: &Rope, device: &Device) -> Self {
        let distinct = if starts.iter().all(|start| *start == starts[0]) { &starts[..1] } else { starts };
        let keys: Vec<f32> = (0..keys).map(|key| key as f32).collect();
        Self::at(starts.len(), distinct, width, &[keys], rope, device)
    }

    /// Rows that carry on rows of the placement before: row `r` looks at the keys of row `parents[r]` there and at its own,
    /// which together stand at `keys[r]`, its own last.
    pub(crate) fn inheriting(
        parents: &[i32],
        starts: &[usize],
        width: usize,
        keys: &[Vec<f32>],
        rope: &Rope,
        device: &Device,
    ) -> Self {
        let inherited = Inherited { parents: ids(parents, device), keys: keys[0].len() - width };
        Self { inherited: Some(inherited), ..Self::at(starts.len(), starts, width, keys, rope, device) }
    }

    /// `starts` and `keys` of every row, or one for all.
    fn at(
        rows: usize,
        starts: &[usize],
        width: usize,
        keys: &[Vec<f32>],
        rope: &Rope,
        device: &Device,
    ) -> Self {
        let numbers = |values: Vec<f32>| Tensor::<1>::from_data(values.as_slice(), (device, DType::F32));
        let positions = starts.iter().flat_map(|start| (*start..start + width).map(|at| at as f32));
        let positions = numbers(positions.collect()).reshape([starts.len(), width]);
        let keys = numbers(keys.concat()).reshape([keys.len(), 1, 1, 1, keys[0].len()]);
        let future = keys.greater(positions.clone().reshape([starts.len(), 1, width, 1, 1]));
        let mask = Tensor::zeros(future.shape(), (device, DType::F32)).mask_fill(future, HIDDEN);
        Self { rows, width, rotation: rope.at(positions), mask, inherited: None }
    }

    /// New tokens, padding included.
    fn tokens(&self) -> usize {
        self.rows * self.width
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

    /// `[tokens, hidden]` to the same shape, the tokens being those of the placements, one after the other. With a cache, which
    /// goes with a single placement, the new keys and values are appended to it, and the queries look at all that it holds.
    pub(crate) fn forward(
        &self,
        x: Tensor<2>,
        placements: &[Placement],
        mut cache: Option<LayerCache<'_>>,
    ) -> Tensor<2> {
        let mut mixed = Vec::with_capacity(placements.len());
        let mut before: Option<(Tensor<4>, Tensor<4>)> = None;
        let mut start = 0;
        for placement in placements {
            // A view of the whole would still cost the backward pass a copy.
            let x = if placements.len() == 1 {
                x.clone()
            } else {
                x.clone().narrow(0, start, placement.tokens())
            };
            start += placement.tokens();
            let (q, k, v) = self.project(x, placement);
            let (k, v) = match (cache.take(), &placement.inherited, &before) {
                (Some(cache), ..) => cache.append(k, v),
                (None, Some(inherited), Some((keys, values))) => {
                    (inherited.extended(keys, k), inherited.extended(values, v))
                }
                _ => (k, v),
            };
            mixed.push(self.mix(q, k.clone(), v.clone(), placement));
            before = Some((k, v));
        }
        project(&self.o_proj, Tensor::cat(mixed, 0))
    }

    /// Queries `[rows, width, heads, head_dim]`, keys and values `[rows, kv_heads, width, head_dim]`.
    fn project(&self, x: Tensor<2>, placement: &Placement) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
        let Placement { rows, width, ref rotation, .. } = *placement;
        let (heads, shared, dim) = (self.num_attention_heads, self.num_key_value_heads, self.head_dim);
        let split = |x: Tensor<2>, heads: usize| x.reshape([rows, width, heads, dim]);

        let q = split(project(&self.q_proj, x.clone()), heads);
        let k = split(project(&self.k_proj, x.clone()), shared);
        let v = split(project(&self.v_proj, x), shared);
        let q = self.q_norm.iter().fold(q, |q, norm| norm.forward(q));
        let k = self.k_norm.iter().fold(k, |k, norm| norm.forward(k));
        let q = rotation.apply(q).mul_scalar((dim as f64).powf(-0.5));
        (q, rotation.apply(k).swap_dims(1, 2), v.swap_dims(1, 2))
    }

    /// Every query's mixture of the values, `[rows * width, heads * head_dim]`.
    fn mix(&self, q: Tensor<4>, k: Tensor<4>, v: Tensor<4>, placement: &Placement) -> Tensor<2> {
        let Placement { rows, width, ref mask, .. } = *placement;
        let (heads, shared, dim) = (self.num_attention_heads, self.num_key_value_heads, self.head_dim);
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
        mixed.swap_dims(1, 2).reshape([rows * width, heads * dim])
    }
}

impl Inherited {
    /// What the rows inherit of their parents' keys or values, then their own: `[rows, kv_heads, keys, head_dim]`.
    fn extended(&self, parents: &Tensor<4>, own: Tensor<4>) -> Tensor<4> {
        let theirs = parents.clone().select(0, self.parents.clone()).narrow(2, 0, self.keys);
        Tensor::cat(vec![theirs, own], 2)
    }
}
