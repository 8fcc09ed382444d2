//! The untrained model: a Llama of a million parameters.

use super::tokenizer::{END, tokenizer_json};
use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::{Device, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_model::{DecoderConfig, Family, LoadedModel, Tokenizer};

/// The prompt of Hopworld's configurations; `{question}` stands for the question.
pub const PROMPT: &str = "Question: {question}\n";

/// A model with weights drawn from `seed`.
pub fn untrained(seed: u64, device: &Device) -> LoadedModel {
    let tokenizer = Tokenizer::from_bytes(tokenizer_json().as_bytes()).expect("made by Rex");
    let config = shape(&tokenizer);
    let decoder = config.init(device).map(&mut Draw(ChaCha8Rng::seed_from_u64(seed)));
    LoadedModel { decoder, config, tokenizer, chat_template: None }
}

/// Draws matrices anew, uniformly with the deviation 0.02 that they were made with, from a stream of its own: the same on
/// every device, whatever else draws there.
struct Draw(ChaCha8Rng);

impl ModuleMapper for Draw {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if D == 1 {
            return param;
        }
        param.map(|matrix| {
            let bound = 0.02 * 3f32.sqrt();
            let values: Vec<f32> =
                (0..matrix.shape().num_elements()).map(|_| self.0.random_range(-bound..bound)).collect();
            let drawn = Tensor::from_data(TensorData::new(values, matrix.shape()), &matrix.device());
            if matrix.is_require_grad() { drawn.require_grad() } else { drawn }
        })
    }
}

fn shape(tokenizer: &Tokenizer) -> DecoderConfig {
    const HIDDEN: usize = 128;
    const HEADS: usize = 4;
    DecoderConfig {
        family: Family::Llama,
        vocab_size: tokenizer.vocab_size(),
        hidden_size: HIDDEN,
        intermediate_size: 3 * HIDDEN,
        num_hidden_layers: 4,
        num_attention_heads: HEADS,
        num_key_value_heads: HEADS,
        head_dim: HIDDEN / HEADS,
        rms_norm_eps: 1e-6,
        // Wavelengths from 6 to 500 tokens, as long as a transcript; with the usual 10,000 half of the dimensions would
        // hardly turn within one, and looking facts up takes far longer to learn.
        rope_theta: 100.0,
        rope_scaling: None,
        max_position_embeddings: 1024,
        qkv_bias: false,
        o_bias: false,
        qk_norm: false,
        tie_word_embeddings: true,
        eos_token_ids: vec![tokenizer.token_id(END).expect("in the vocabulary")],
        bos_token_id: None,
    }
}
