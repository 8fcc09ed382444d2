//! The untrained model: a decoder of a million parameters that is started ready to look things up.

use super::tokenizer::{END, tokenizer_json};
use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_model::{Attention, DecoderConfig, Family, LoadedModel, Tokenizer, rope_frequencies};

/// The prompt of Hopworld's configurations; `{question}` stands for the question.
pub const PROMPT: &str = "Question: {question}\n";

/// A model with weights drawn from `seed`, the same on every device.
///
/// Looking up is induction: attend to what followed the same token before (Olsson et al., arXiv 2209.11895). It forms late
/// from small random weights, and within minutes from these: some heads look back one, two, three tokens;
/// those behind the first layer attend to tokens alike and hand on what they see, `W_k = W_q` and `W_o = W_vᵀ` (after Trockman and
/// Kolter, arXiv 2305.09828); and embeddings are as large as what attention adds to them, so that a token is still
/// recognised behind it. The small final norm keeps the logits small, which share the matrix of the embeddings.
pub fn untrained(seed: u64, device: &Device) -> LoadedModel {
    let tokenizer = tokenizer();
    let config = shape(&tokenizer);
    let mut decoder = config.init(device);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let deviation = 0.9 / (config.hidden_size as f32).sqrt();

    draw(&mut decoder.embed_tokens.weight, 0.5, &mut random);
    set(&mut decoder.norm.weight, |weight| weight.full_like(0.1));
    for (place, layer) in decoder.layers.iter_mut().enumerate() {
        let Attention { q_proj, k_proj, v_proj, o_proj, .. } = &mut layer.self_attn;
        let mlp = &mut layer.mlp;
        for linear in [&mut *q_proj, k_proj, v_proj, &mut mlp.gate_proj, &mut mlp.up_proj, &mut mlp.down_proj]
        {
            draw(&mut linear.weight, deviation, &mut random);
        }
        set(&mut o_proj.weight, |_| v_proj.weight.val().transpose());
        if place > 0 {
            set(&mut k_proj.weight, |_| q_proj.weight.val());
        }
        let (query, key) = looking_back(&config, LOOK_BACK.get(place).copied().unwrap_or_default());
        for (linear, values) in [(q_proj, query), (k_proj, key)] {
            let bias = linear.bias.as_mut().expect("Qwen2 has biases here");
            set(bias, |bias| Tensor::from_data(values.as_slice(), &bias.device()));
        }
    }
    LoadedModel { decoder, config, tokenizer, chat_template: None }
}

/// Heads that look back, by layer: three in the first, which tell a name what stands before it, and one in the second,
/// which tells it what those told its predecessor.
const LOOK_BACK: [usize; 2] = [3, 1];

/// Query and key biases with which head `h` of the first `heads` attends to the token `h + 1` back, whatever the tokens
/// are. Positions rotate both, so their product is `a² Σ_i cos(f_i (distance − h − 1))`.
fn looking_back(config: &DecoderConfig, heads: usize) -> (Vec<f32>, Vec<f32>) {
    /// Large enough to tell neighbours apart, which only the fast frequencies do.
    const AMPLITUDE: f64 = 6.4;
    let (dim, half) = (config.head_dim, config.head_dim / 2);
    let size = config.num_attention_heads * dim;
    let frequencies = rope_frequencies(config);
    let fast = &frequencies[..half / 2];
    let (mut query, mut key) = (vec![0.0; size], vec![0.0; size]);
    for head in 0..heads {
        for (i, frequency) in fast.iter().enumerate() {
            let angle = (head + 1) as f64 * frequency;
            let at = head * dim + i;
            query[at] = (AMPLITUDE * angle.cos()) as f32;
            query[at + half] = (-AMPLITUDE * angle.sin()) as f32;
            key[at] = AMPLITUDE as f32;
        }
    }
    (query, key)
}

/// Draws uniformly with this deviation, from a stream of our own: the same on every device, whatever else draws there.
fn draw(param: &mut Param<Tensor<2>>, deviation: f32, random: &mut ChaCha8Rng) {
    let bound = deviation * 3f32.sqrt();
    set(param, |matrix| {
        let shape = matrix.shape();
        let values: Vec<f32> =
            (0..shape.num_elements()).map(|_| random.random_range(-bound..bound)).collect();
        Tensor::from_data(TensorData::new(values, shape), &matrix.device())
    });
}

fn set<const D: usize>(param: &mut Param<Tensor<D>>, value: impl FnOnce(Tensor<D>) -> Tensor<D>) {
    *param = param.clone().map(|old| {
        let learnt = old.is_require_grad();
        let new = value(old).detach();
        if learnt { new.require_grad() } else { new }
    });
}

fn tokenizer() -> Tokenizer {
    Tokenizer::from_bytes(tokenizer_json().as_bytes()).expect("made by Rex")
}

/// The shape of the untrained model.
pub(crate) fn config() -> DecoderConfig {
    shape(&tokenizer())
}

fn shape(tokenizer: &Tokenizer) -> DecoderConfig {
    const HIDDEN: usize = 128;
    const HEADS: usize = 4;
    DecoderConfig {
        family: Family::Qwen2,
        vocab_size: tokenizer.vocab_size(),
        hidden_size: HIDDEN,
        intermediate_size: 3 * HIDDEN,
        num_hidden_layers: 4,
        num_attention_heads: HEADS,
        num_key_value_heads: HEADS,
        head_dim: HIDDEN / HEADS,
        rms_norm_eps: 1e-6,
        rope_theta: 10_000.0,
        rope_scaling: None,
        max_position_embeddings: 1024,
        qkv_bias: true,
        o_bias: false,
        qk_norm: false,
        tie_word_embeddings: true,
        eos_token_ids: vec![tokenizer.token_id(END).expect("in the vocabulary")],
        bos_token_id: None,
    }
}
