//! The untrained model: a Llama of a million parameters.

use super::tokenizer::{END, tokenizer_json};
use burn::tensor::Device;
use rex_model::{DecoderConfig, Family, LoadedModel, Tokenizer};

/// The prompt of Hopworld's configurations; `{question}` stands for the question.
pub const PROMPT: &str = "Question: {question}\n";

/// A model with weights drawn from `seed`.
pub fn untrained(seed: u64, device: &Device) -> LoadedModel {
    let tokenizer = Tokenizer::from_bytes(tokenizer_json().as_bytes()).expect("made by Rex");
    let config = shape(&tokenizer);
    device.seed(seed);
    LoadedModel { decoder: config.init(device), config, tokenizer, chat_template: None }
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
