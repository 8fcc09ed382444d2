//! What a parameter of the decoder is called in a checkpoint.
//!
//! | decoder                         | Hugging Face                          | GGUF                     |
//! |---------------------------------|---------------------------------------|--------------------------|
//! | `embed_tokens.weight`           | `model.embed_tokens.weight`           | `token_embd.weight`      |
//! | `layers.N.self_attn.q_proj.*`   | `model.layers.N.self_attn.q_proj.*`   | `blk.N.attn_q.*`         |
//! | `layers.N.input_layernorm.*`    | `model.layers.N.input_layernorm.*`    | `blk.N.attn_norm.*`      |
//! | `norm.weight`                   | `model.norm.weight`                   | `output_norm.weight`     |
//! | `lm_head.weight`                | `lm_head.weight`                      | `output.weight`          |
//!
//! The decoder's fields carry the names of Hugging Face; GGUF has names of its own, all in [`GGUF_NAMES`]. Those of BERT,
//! which has no place for them in a Rust struct (`attention.self`), are in [`BERT_NAMES`]. PEFT names the adapters alone:
//! `layers.N.self_attn.q_proj.weight.lora.a` is `base_model.model.model.layers.N.self_attn.q_proj.lora_A.weight`.

/// Whose names a checkpoint uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(target_family = "wasm", expect(dead_code, reason = "the browser reads decoders only"))]
pub(crate) enum Naming {
    HuggingFace,
    Gguf,
    /// The adapters, and nothing else, have names.
    Peft,
    Bert,
}

/// Module of the decoder, without `layers.N.` -> module in a GGUF file, without `blk.N.`.
const GGUF_NAMES: [(&str, &str); 14] = [
    ("embed_tokens", "token_embd"),
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("norm", "output_norm"),
    ("lm_head", "output"),
];

/// Module of the encoder, without `layers.N.` -> module in a BERT checkpoint, without `encoder.layer.N.`.
const BERT_NAMES: [(&str, &str); 12] = [
    ("word_embeddings", "embeddings.word_embeddings"),
    ("position_embeddings", "embeddings.position_embeddings"),
    ("token_type_embeddings", "embeddings.token_type_embeddings"),
    ("norm", "embeddings.LayerNorm"),
    ("query", "attention.self.query"),
    ("key", "attention.self.key"),
    ("value", "attention.self.value"),
    ("attention_output", "attention.output.dense"),
    ("attention_norm", "attention.output.LayerNorm"),
    ("intermediate", "intermediate.dense"),
    ("output", "output.dense"),
    ("output_norm", "output.LayerNorm"),
];

/// The way from the decoder to one of its parameters, kept while a module is visited or mapped.
#[derive(Default)]
pub(crate) struct ModulePath {
    /// Every field on the way and the type that holds it, as Burn names them.
    fields: Vec<(String, String)>,
}

impl ModulePath {
    pub(crate) fn enter(&mut self, field: &str, holder: &str) {
        self.fields.push((field.into(), holder.into()));
    }

    pub(crate) fn exit(&mut self) {
        self.fields.pop();
    }

    /// The name of the parameter that the path leads to, where `naming` has one.
    pub(crate) fn name(&self, naming: Naming) -> Option<String> {
        let fields: Vec<&str> = self.fields.iter().map(|(field, _)| field.as_str()).collect();
        naming.name(&fields.join("."))
    }

    /// Whether the decoder holds the transpose of the checkpoint's tensor: a matrix of a linear layer is `[in, out]` in
    /// Burn and `[out, in]` in every checkpoint.
    pub(crate) fn is_transposed(&self) -> bool {
        self.fields.last().is_some_and(|(field, holder)| match holder.as_str() {
            "Struct:Linear" => field == "weight",
            "Struct:LoraAdapter" => true,
            _ => false,
        })
    }
}

impl Naming {
    /// The checkpoint's name of a parameter, such as `norm.weight`.
    fn name(self, parameter: &str) -> Option<String> {
        let adapter = parameter.split_once(".weight.lora.");
        match self {
            Self::Peft => adapter.map(|(module, factor)| {
                let module = Self::module(module);
                format!("base_model.model.{module}.lora_{}.weight", factor.to_ascii_uppercase())
            }),
            _ if adapter.is_some() => None,
            Self::HuggingFace => Some(Self::module(parameter)),
            Self::Gguf => Some(renamed(parameter, "blk", &GGUF_NAMES)),
            // Burn's layer norm calls its parameters gamma and beta.
            Self::Bert => Some(
                renamed(parameter, "encoder.layer", &BERT_NAMES)
                    .replace("LayerNorm.gamma", "LayerNorm.weight")
                    .replace("LayerNorm.beta", "LayerNorm.bias"),
            ),
        }
    }

    /// Where transformers has a module or parameter of the decoder.
    fn module(of_decoder: &str) -> String {
        match of_decoder.starts_with("lm_head") {
            true => of_decoder.into(),
            false => format!("model.{of_decoder}"),
        }
    }

    /// Whether a checkpoint may hold `name` although the decoder has no such parameter: rotary tables, which are computed
    /// from the configuration, and an output matrix that is the embedding again.
    pub(crate) fn is_redundant(self, name: &str) -> bool {
        match self {
            Self::HuggingFace => name == "lm_head.weight" || name.ends_with(".rotary_emb.inv_freq"),
            Self::Gguf => name == "rope_freqs.weight",
            Self::Peft => false,
            // The pooler and the heads of pre-training are no part of a sentence encoder.
            Self::Bert => {
                name == "embeddings.position_ids" || name.starts_with("pooler.") || name.starts_with("cls.")
            }
        }
    }
}

/// `layers.N.MODULE.KIND` as `{block}.N.NAME.KIND`, and `MODULE.KIND` as `NAME.KIND`.
fn renamed(parameter: &str, block: &str, names: &[(&str, &str)]) -> String {
    let layer = parameter.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    let (block, parameter) = match layer {
        Some((layer, parameter)) => (format!("{block}.{layer}."), parameter),
        None => (String::new(), parameter),
    };
    let (module, kind) = parameter.rsplit_once('.').expect("a module and `weight` or `bias`");
    let entry = names.iter().find(|(ours, _)| *ours == module);
    let (_, theirs) = entry.expect("the table lists every module");
    format!("{block}{theirs}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_a_name_in_each_format() {
        for (parameter, hugging_face, gguf) in [
            ("embed_tokens.weight", "model.embed_tokens.weight", "token_embd.weight"),
            (
                "layers.3.input_layernorm.weight",
                "model.layers.3.input_layernorm.weight",
                "blk.3.attn_norm.weight",
            ),
            ("layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.q_proj.bias", "blk.0.attn_q.bias"),
            (
                "layers.10.mlp.down_proj.weight",
                "model.layers.10.mlp.down_proj.weight",
                "blk.10.ffn_down.weight",
            ),
            ("norm.weight", "model.norm.weight", "output_norm.weight"),
            ("lm_head.weight", "lm_head.weight", "output.weight"),
        ] {
            assert_eq!(Naming::HuggingFace.name(parameter).as_deref(), Some(hugging_face));
            assert_eq!(Naming::Gguf.name(parameter).as_deref(), Some(gguf));
            assert_eq!(Naming::Peft.name(parameter), None);
        }
        for (parameter, bert) in [
            ("norm.gamma", "embeddings.LayerNorm.weight"),
            ("layers.0.query.weight", "encoder.layer.0.attention.self.query.weight"),
            ("layers.11.output_norm.beta", "encoder.layer.11.output.LayerNorm.bias"),
        ] {
            assert_eq!(Naming::Bert.name(parameter).as_deref(), Some(bert));
        }
    }

    #[test]
    fn adapters_have_a_name_in_peft_only() {
        let parameter = "layers.3.mlp.up_proj.weight.lora.b";
        let name = "base_model.model.model.layers.3.mlp.up_proj.lora_B.weight";
        assert_eq!(Naming::Peft.name(parameter).as_deref(), Some(name));
        assert_eq!(Naming::HuggingFace.name(parameter), None);
        assert_eq!(Naming::Gguf.name(parameter), None);
    }
}
