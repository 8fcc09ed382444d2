//! The network: BERT's encoder (Devlin et al., arXiv 1810.04805), post-norm, bidirectional.

use super::config::EncoderConfig;
use crate::attention::HIDDEN;
use crate::decoder::{linear, project};
use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig, LayerNorm, LayerNormConfig, Linear};
use burn::tensor::activation::gelu;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Embeddings and layers; the checkpoint's names of the fields are in `weights/names.rs`.
#[derive(Module, Debug)]
pub struct Bert {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

#[derive(Module, Debug)]
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    intermediate: Linear,
    output: Linear,
    output_norm: LayerNorm,
    heads: usize,
}

impl EncoderConfig {
    pub(crate) fn init(&self, device: &Device) -> Bert {
        let (hidden, inner) = (self.hidden_size, self.intermediate_size);
        let norm = || LayerNormConfig::new(hidden).with_epsilon(self.layer_norm_eps).init(device);
        let embedding = |rows: usize| EmbeddingConfig::new(rows, hidden).init(device);
        let map = |input: usize, output: usize| linear(input, output, true, device);
        let layer = |_| Layer {
            query: map(hidden, hidden),
            key: map(hidden, hidden),
            value: map(hidden, hidden),
            attention_output: map(hidden, hidden),
            attention_norm: norm(),
            intermediate: map(hidden, inner),
            output: map(inner, hidden),
            output_norm: norm(),
            heads: self.num_attention_heads,
        };
        Bert {
            word_embeddings: embedding(self.vocab_size),
            position_embeddings: embedding(self.max_position_embeddings),
            token_type_embeddings: embedding(self.type_vocab_size),
            norm: norm(),
            layers: (0..self.num_hidden_layers).map(layer).collect(),
        }
    }
}

impl Bert {
    /// Last hidden states of rows that are padded on the right with any id, `[rows, width]` ids to `[rows, width, hidden]`, with
    /// which of them belong to a token, `[rows, width, 1]`, as 1 or 0.
    pub(crate) fn forward(&self, ids: Tensor<2, Int>, lengths: &[usize]) -> (Tensor<3>, Tensor<3>) {
        let [rows, width] = ids.dims();
        let device = ids.device();
        let is_token = lengths.iter().flat_map(|length| (0..width).map(move |i| f32::from(i < *length)));
        let is_token = TensorData::new(is_token.collect::<Vec<_>>(), [rows, width]);
        let is_token = Tensor::<2>::from_data(is_token, (&device, DType::F32));
        let mask = (is_token.clone() - 1.0).mul_scalar(-HIDDEN).reshape([rows, 1, 1, width]);

        let positions = Tensor::<1, Int>::arange(0..width as i64, &device).unsqueeze::<2>();
        let zero = Tensor::<2, Int>::zeros([1, 1], &device);
        let x = self.word_embeddings.forward(ids)
            + self.position_embeddings.forward(positions)
            + self.token_type_embeddings.forward(zero);
        let mut x = self.norm.forward(x).flatten::<2>(0, 1);
        for layer in &self.layers {
            x = layer.forward(x, &mask);
        }
        let hidden = x.dims()[1];
        (x.reshape([rows, width, hidden]), is_token.unsqueeze_dim(2))
    }

    /// The device that the weights are on.
    pub fn device(&self) -> Device {
        self.word_embeddings.weight.device()
    }
}

impl Layer {
    /// `[rows * width, hidden]` to the same shape; `mask` is `[rows, 1, 1, width]`.
    fn forward(&self, x: Tensor<2>, mask: &Tensor<4>) -> Tensor<2> {
        let ([rows, _, _, width], hidden) = (mask.dims(), x.dims()[1]);
        let dim = hidden / self.heads;
        let split = |x: Tensor<2>| x.reshape([rows, width, self.heads, dim]).swap_dims(1, 2);
        let query = split(project(&self.query, x.clone())).mul_scalar((dim as f64).powf(-0.5));
        let key = split(project(&self.key, x.clone()));
        let value = split(project(&self.value, x.clone()));
        let scores = query.matmul(key.swap_dims(2, 3)) + mask.clone();
        let weights = burn::tensor::activation::softmax(scores, 3);
        let mixed = weights.matmul(value).swap_dims(1, 2).reshape([rows * width, hidden]);
        let x = self.attention_norm.forward(x + project(&self.attention_output, mixed));
        let inner = gelu(project(&self.intermediate, x.clone()));
        self.output_norm.forward(x + project(&self.output, inner))
    }
}
