use rex_model::Tokenizer;
use rex_rollout::Codec;

/// rex-model's tokenizer as rollouts see one.
pub struct ModelCodec(pub Tokenizer);

impl Codec for ModelCodec {
    fn encode(&self, text: &str) -> Vec<u32> {
        self.0.encode_text(text)
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids)
    }
}
