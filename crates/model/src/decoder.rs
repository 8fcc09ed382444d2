//! The decoder: embedding, layers, final norm and head.

use burn::module::{Initializer, Module};
use burn::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};
use burn::tensor::{Device, FloatDType, Int, Tensor};

use crate::attention::{Attention, Placement};
use crate::cache::{Extension, LayerCache};
use crate::config::DecoderConfig;
use crate::mlp::Mlp;
use crate::norm::RmsNorm;
use crate::rope::Rope;

/// A decoder-only transformer: Llama, Qwen2 or Qwen3, by the switches of its [`DecoderConfig`].
///
/// Fields carry the names of the checkpoints, so a module path is a tensor name without its `model.` prefix. Burn keeps
/// the matrix of a [`Linear`] as `[in, out]`, the transpose of the checkpoint's.
#[derive(Module, Debug)]
pub struct Decoder {
    pub embed_tokens: Embedding,
    pub layers: Vec<Layer>,
    pub norm: RmsNorm,
    /// `None` where the head is the embedding matrix.
    pub lm_head: Option<Linear>,
    pub(crate) rope: Rope,
    /// What activations are and products are computed in. Parameters, and sums over many numbers, are in f32 all the same.
    #[module(skip)]
    pub(crate) computes_in: FloatDType,
}

/// One pre-norm transformer block.
#[derive(Module, Debug)]
pub struct Layer {
    pub input_layernorm: RmsNorm,
    pub self_attn: Attention,
    pub post_attention_layernorm: RmsNorm,
    pub mlp: Mlp,
}

impl DecoderConfig {
    /// A decoder of this shape with random weights: normal with deviation 0.02, biases 0, norms 1.
    pub fn init(&self, device: &Device) -> Decoder {
        let norm = || RmsNorm::init(self.hidden_size, self.rms_norm_eps, device);
        let layer = |_| Layer {
            input_layernorm: norm(),
            self_attn: Attention::init(self, device),
            post_attention_layernorm: norm(),
            mlp: Mlp::init(self, device),
        };
        Decoder {
            embed_tokens: EmbeddingConfig::new(self.vocab_size, self.hidden_size)
                .with_initializer(NORMAL)
                .init(device),
            layers: (0..self.num_hidden_layers).map(layer).collect(),
            norm: norm(),
            lm_head: (!self.tie_word_embeddings)
                .then(|| linear(self.hidden_size, self.vocab_size, false, device)),
            rope: Rope::init(self, device),
            computes_in: FloatDType::F32,
        }
    }
}

impl Decoder {
    /// Hidden states after the final norm, `[rows, width]` ids to `[rows, width, hidden]`.
    ///
    /// Rows are padded on the right with any id: no token sees what comes after it. Without a cache every row starts at
    /// position 0. With one, the ids continue the rows of the [`Extension`], in its order, and their keys and values are
    /// appended to the cache.
    pub fn forward(&self, ids: Tensor<2, Int>, extension: Option<Extension<'_>>) -> Tensor<3> {
        let [rows, width] = ids.dims();
        let device = ids.device();
        let x = self.embed(ids.reshape([rows * width]));
        let states = match extension {
            None => {
                let placement = Placement::new(&vec![0; rows], width, width, &self.rope, &device);
                self.states(x, &[placement], |_| ())
            }
            Some(mut extension) => {
                assert_eq!([extension.starts().len(), extension.width()], [rows, width], "ids and extension");
                let placement =
                    Placement::new(extension.starts(), width, extension.keys(), &self.rope, &device);
                let cached = self.layers.iter().zip(extension.layers());
                cached.fold(x, |x, (layer, cache)| {
                    layer.forward(x, std::slice::from_ref(&placement), Some(cache))
                })
            }
        };
        let features = states.dims()[1];
        self.norm.forward(states).reshape([rows, width, features])
    }

    /// States before the final norm, without a cache: `[tokens, hidden]` to the same shape. `pass` sees what goes into every
    /// layer.
    pub(crate) fn states(
        &self,
        x: Tensor<2>,
        placements: &[Placement],
        mut pass: impl FnMut(&Tensor<2>),
    ) -> Tensor<2> {
        self.layers.iter().fold(x, |x, layer| {
            pass(&x);
            layer.forward(x, placements, None)
        })
    }

    /// The rows of the embedding matrix, `[tokens]` to `[tokens, hidden]`.
    pub(crate) fn embed(&self, ids: Tensor<1, Int>) -> Tensor<2> {
        self.embed_tokens.forward(ids.unsqueeze()).flatten::<2>(0, 1).cast(self.computes_in)
    }

    /// The decoder with its products in another type; the parameters, and so their gradients, stay what they are. A step of
    /// an optimizer is often less than a bf16 can tell apart, so it is f32 that is trained.
    pub fn computing_in(self, dtype: FloatDType) -> Self {
        Self { computes_in: dtype, ..self }
    }

    /// `[n, hidden]` to `[n, vocab]`.
    pub fn logits(&self, hidden: Tensor<2>) -> Tensor<2> {
        match &self.lm_head {
            Some(head) => project(head, hidden),
            None => {
                let embeddings = self.embed_tokens.weight.val().cast(hidden.dtype());
                product(hidden, embeddings.transpose())
            }
        }
    }

    /// The device that the weights are on.
    pub fn device(&self) -> Device {
        self.embed_tokens.weight.device()
    }
}

impl Layer {
    pub(crate) fn forward(
        &self,
        x: Tensor<2>,
        placements: &[Placement],
        cache: Option<LayerCache<'_>>,
    ) -> Tensor<2> {
        let x = x.clone() + self.self_attn.forward(self.input_layernorm.forward(x), placements, cache);
        x.clone() + self.mlp.forward(self.post_attention_layernorm.forward(x))
    }
}

const NORMAL: Initializer = Initializer::Normal { mean: 0.0, std: 0.02 };

/// A linear map with the initial weights of the families.
pub(crate) fn linear(input: usize, output: usize, bias: bool, device: &Device) -> Linear {
    let map = LinearConfig::new(input, output).with_bias(false).with_initializer(NORMAL).init(device);
    Linear { bias: bias.then(|| Initializer::Zeros.init([output], device)), ..map }
}

/// `x W + b`, `[n, in]` to `[n, out]`, in the type of `x`.
pub(crate) fn project(map: &Linear, x: Tensor<2>) -> Tensor<2> {
    let dtype = x.dtype();
    let y = product(x, map.weight.val().cast(dtype));
    match &map.bias {
        Some(bias) => y + bias.val().cast(dtype).unsqueeze(),
        None => y,
    }
}

/// `a b`, turned around as `(bᵀ aᵀ)ᵀ` where `a` has few rows, as in decoding: on the CPU the large factor is then read in
/// place and in order instead of being packed first, 1.5 to 2 times as fast for 8 rows. The transposes are views.
pub(crate) fn product<const D: usize>(a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
    match a.dims()[D - 2] {
        2..=32 => b.transpose().matmul(a.transpose()).transpose(),
        _ => a.matmul(b),
    }
}
