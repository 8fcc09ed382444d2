//! How much memory training takes, from the shape of the model alone: an estimate before anything is allocated.
//!
//! Everything is counted in numbers of four bytes. What an operation keeps for its backward pass follows from its derivative:
//! a product keeps both factors (unless a factor needs no gradient, or is kept already), `exp` and the sigmoid keep their
//! results, a sum keeps nothing. Small things (norm statistics, rotations, ids) are left out. Sizes that no machine has are
//! no overflow: numbers are counted in u128. A run takes the memory of its largest [`Phase`]; the tests compare that with what was
//! measured.

use crate::attention;
use crate::config::DecoderConfig;
use crate::engine;
use crate::log_probs;
use crate::lora::Lora;
use crate::pass::Activations;

/// What is trained, and how much of it at once.
#[derive(Debug, Clone, Copy)]
pub struct TrainingPlan<'l> {
    /// Adapters instead of the weights.
    pub lora: Option<&'l Lora>,
    /// A frozen starting point beside the weights; adapters need none.
    pub reference: bool,
    pub activations: Activations,
    /// Rows of a pass, and tokens of the longest row.
    pub rows: usize,
    pub width: usize,
    /// Passes side by side.
    pub passes: usize,
    /// Rows that are generated at once, and tokens of the longest; absent where nothing is generated.
    pub generation: Option<(usize, usize)>,
}

/// What is in memory at one time, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Phase {
    pub name: &'static str,
    pub parts: Vec<(&'static str, u64)>,
}

impl Phase {
    pub fn bytes(&self) -> u64 {
        self.parts.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }
}

/// Bytes of a number.
const F32: u128 = 4;

/// Linear maps of a layer by their names in checkpoints: numbers in, numbers out.
type Maps = [(&'static str, u128, u128); 7];

impl DecoderConfig {
    fn maps(&self) -> Maps {
        let (hidden, inner) = (self.hidden_size as u128, self.intermediate_size as u128);
        let (queries, keys) = (self.queries(), self.keys());
        [
            ("q_proj", hidden, queries),
            ("k_proj", hidden, keys),
            ("v_proj", hidden, keys),
            ("o_proj", queries, hidden),
            ("gate_proj", hidden, inner),
            ("up_proj", hidden, inner),
            ("down_proj", inner, hidden),
        ]
    }

    /// Features of a token's queries.
    fn queries(&self) -> u128 {
        (self.num_attention_heads * self.head_dim) as u128
    }

    /// Features of a token's keys, and of its values.
    fn keys(&self) -> u128 {
        (self.num_key_value_heads * self.head_dim) as u128
    }

    /// Weights, biases and norms.
    pub fn num_parameters(&self) -> u128 {
        let hidden = self.hidden_size as u128;
        let matrices: u128 = self.maps().iter().map(|(_, input, output)| input * output).sum();
        let biases = if self.qkv_bias { self.queries() + 2 * self.keys() } else { 0 }
            + if self.o_bias { hidden } else { 0 };
        let norms = 2 * hidden + if self.qk_norm { 2 * self.head_dim as u128 } else { 0 };
        let embeddings = if self.tie_word_embeddings { 1 } else { 2 };
        embeddings * self.vocab_size as u128 * hidden
            + self.num_hidden_layers as u128 * (matrices + biases + norms)
            + hidden
    }

    /// Numbers in `A` and `B` of every adapter, and in the matrices that they adapt.
    fn adapted(&self, lora: &Lora) -> (u128, u128) {
        let maps = self.maps();
        let adapted =
            maps.iter().filter(|(name, ..)| lora.target_modules.iter().any(|target| target == name));
        let layers = self.num_hidden_layers as u128;
        adapted.fold((0, 0), |(adapters, matrices), (_, input, output)| {
            let rank = lora.rank as u128;
            (adapters + layers * rank * (input + output), matrices + layers * input * output)
        })
    }

    /// Numbers that a layer keeps for its backward pass over rows of `width` tokens: of both norms the input, the normalised and
    /// the scaled states; queries, keys, values, their mixture before and after the heads are joined; the scores, of which a block
    /// of queries has one for every key up to its end; of the MLP gate, sigmoid, SiLU, `up` and their product.
    fn kept_by_layer(&self, rows: u128, width: u128) -> u128 {
        let states = 6 * self.hidden_size as u128
            + 3 * self.queries()
            + 2 * self.keys()
            + 5 * self.intermediate_size as u128;
        let keys_seen = (width + attention::BLOCK as u128) / 2;
        rows * width * (states + self.num_attention_heads as u128 * keys_seen)
    }

    /// The phases of a training step whose optimizer has its moments, and of the checkpoint after it, each with what it holds.
    pub fn training_memory(&self, plan: &TrainingPlan<'_>) -> Vec<Phase> {
        let weights = self.num_parameters();
        let (adapters, adapted) = plan.lora.map_or((0, 0), |lora| self.adapted(lora));
        let trained = if plan.lora.is_some() { adapters } else { weights };
        let reference = if plan.reference && plan.lora.is_none() { weights } else { 0 };
        let held = [
            ("weights", weights),
            ("adapters", adapters),
            ("reference", reference),
            ("moments", 2 * trained),
        ];
        let phase = |name, parts: &[(&'static str, u128)]| Phase {
            name,
            parts: held
                .iter()
                .chain(parts)
                .filter(|(_, numbers)| *numbers > 0)
                .map(|(part, numbers)| (*part, u64::try_from(numbers * F32).unwrap_or(u64::MAX)))
                .collect(),
        };

        let mut phases = Vec::new();
        if let Some((rows, tokens)) = plan.generation {
            let cache = self.cache(rows as u128, tokens as u128);
            let states = 4 * self.hidden_size as u128 + 3 * self.intermediate_size as u128;
            let work = self.logits(rows as u128) + engine::BUDGET as u128 * states;
            phases.push(phase("generating", &[("merged", adapted), ("cache", cache), ("work", work)]));
        }
        let (rows, width) = (plan.rows as u128, plan.width as u128);
        let (layers, passes) = (self.num_hidden_layers as u128, plan.passes as u128);
        let (hidden, tokens) = (self.hidden_size as u128, rows * width);
        let layer = self.kept_by_layer(rows, width);
        // Beside what is made of a chunk of logits, the gradient of the head: of that chunk, and the sum of the others.
        let head = if plan.lora.is_some() { 0 } else { 2 * self.vocab_size as u128 * hidden };
        let logits = self.logits(tokens) + head;
        // Gradients are those of the passes before; that of the pass itself grows as activations are given back.
        let learning = |gradients, merged, activations, logits| {
            let parts = [
                ("gradients", gradients),
                ("merged", merged),
                ("activations", passes * activations),
                ("logits", passes * logits),
            ];
            phase("learning", &parts)
        };
        phases.push(match plan.activations {
            // The graph holds the merged weights, too, and of the head the exponentials of all logits.
            Activations::Kept => {
                let activations = layers * layer + 3 * tokens * hidden;
                learning(trained, adapted, activations, tokens * self.vocab_size as u128 + logits)
            }
            // The inputs of all layers, and first the head's part, then all of one layer.
            Activations::Recomputed => {
                let inputs = (layers + 1) * tokens * hidden;
                let at_the_head = learning(trained, 0, inputs, logits);
                let at_a_layer = learning(2 * trained, adapted / layers, inputs + layer, 0);
                if at_the_head.bytes() > at_a_layer.bytes() { at_the_head } else { at_a_layer }
            }
        });
        // New weights appear beside the old.
        phases.push(phase("updating", &[("new weights", trained), ("gradients", trained)]));
        // The optimizer's record, or the weights to write, two copies of a tensor among them.
        let written = adapted + 2 * self.vocab_size as u128 * hidden;
        phases.push(phase("saving", &[("copies", written.max(2 * trained))]));
        phases
    }

    /// Keys and values of every layer, with the slots and tokens by which the cache grows.
    fn cache(&self, rows: u128, tokens: u128) -> u128 {
        let slots = crate::cache::slots_for(rows as usize + 1) as u128;
        let tokens = tokens.next_multiple_of(crate::cache::BLOCK as u128);
        2 * self.num_hidden_layers as u128 * self.keys() * slots * tokens
    }

    /// What is made of the logits of one chunk of `tokens` at a time: three tensors of their size.
    fn logits(&self, tokens: u128) -> u128 {
        3 * (tokens * self.vocab_size as u128).min(log_probs::CHUNK as u128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand from the published configurations; the totals are those that the Hub shows.
    #[test]
    fn published_models_have_as_many_parameters() {
        let check = |fields: &str, expected: u128| {
            let config = DecoderConfig::from_hf(&format!(r#"{{"max_position_embeddings": 8192, {fields}}}"#));
            assert_eq!(config.unwrap().num_parameters(), expected, "{fields}");
        };
        // SmolLM2-135M: 49,152 x 576 + 30 (2 x 576² + 2 x 576 x 192 + 3 x 576 x 1,536 + 2 x 576) + 576.
        check(
            r#""model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
            "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": true"#,
            134_515_008,
        );
        // Qwen2.5-0.5B: 151,936 x 896 + 24 (2 x 896² + 2 x 896 x 128 + 3 x 896 x 4,864 + 896 + 2 x 128 + 2 x 896) + 896.
        check(
            r#""model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
            "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true"#,
            494_032_768,
        );
        // Qwen2.5-7B: 2 x 152,064 x 3,584 + 28 (2 x 3,584² + 2 x 3,584 x 512 + 3 x 3,584 x 18,944 + 3,584 + 2 x 512 + 2 x 3,584)
        // + 3,584.
        check(
            r#""model_type": "qwen2", "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944,
            "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4"#,
            7_615_616_512,
        );
        // Qwen3-0.6B: heads of 128 that are not hidden_size / num_attention_heads, and norms of their own.
        check(
            r#""model_type": "qwen3", "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072,
            "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
            "tie_word_embeddings": true"#,
            596_049_920,
        );
    }

    #[test]
    fn adapters_are_counted_by_module() {
        let config = DecoderConfig::from_hf(
            r#"{"model_type": "llama", "vocab_size": 100, "hidden_size": 8, "intermediate_size": 20, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}"#,
        );
        let lora = |modules: &[&str]| Lora {
            rank: 2,
            alpha: 1.0,
            target_modules: modules.iter().map(|module| module.to_string()).collect(),
        };
        let config = config.unwrap();
        // q: 8 to 8, k: 8 to 4, down: 20 to 8.
        assert_eq!(config.adapted(&lora(&["q_proj"])), (3 * 2 * 16, 3 * 64));
        assert_eq!(config.adapted(&lora(&["k_proj", "down_proj"])), (3 * 2 * (12 + 28), 3 * (32 + 160)));
    }

    #[test]
    fn a_large_model_is_no_overflow() {
        let config = DecoderConfig::from_hf(
            r#"{"model_type": "llama", "vocab_size": 2000000, "hidden_size": 1000000, "intermediate_size": 2000000,
            "num_hidden_layers": 1000, "num_attention_heads": 1000, "max_position_embeddings": 1000000}"#,
        );
        let plan = TrainingPlan {
            lora: None,
            reference: true,
            activations: Activations::Kept,
            rows: 1000,
            width: 100_000,
            passes: 1,
            generation: Some((1000, 100_000)),
        };
        let phases = config.unwrap().training_memory(&plan);
        assert!(phases.iter().all(|phase| phase.bytes() > 1 << 50));
    }
}
