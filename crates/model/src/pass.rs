//! The training forward in two halves: log-probabilities now, the gradient by them later.
//!
//! Between the halves a loss turns log-probabilities into slopes, and needs no part of the model for it. So the first half
//! need not keep a graph: [`Activations::Recomputed`] keeps the input of every layer and computes each layer again when
//! the gradient comes by (Chen et al., arXiv 1604.06174), and the logits, the largest tensor of all, in chunks.

use crate::decoder::Decoder;
use crate::forest::Forest;
use crate::log_probs::{Scored, ids};
use burn::module::Module;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{IndexingUpdateOp, Int, Tensor};

/// What the forward pass keeps for the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activations {
    /// Everything.
    Kept,
    /// The input of every layer; the rest is computed a second time, which makes a step about a third longer.
    Recomputed,
}

/// A forward pass that waits for its backward pass.
pub struct Pass<'d> {
    decoder: &'d Decoder,
    log_probs: Tensor<2>,
    kept: Kept,
}

#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum Kept {
    /// The log-probabilities, with their graph.
    Graph(Tensor<2>),
    Inputs(Inputs),
}

/// Tensors without a graph.
struct Inputs {
    ids: Tensor<1, Int>,
    forest: Forest,
    scored: Scored,
    temperature: f64,
    /// Of every layer, `[tokens, hidden]`.
    layers: Vec<Tensor<2>>,
    /// Of the final norm, `[tokens, hidden]`.
    norm: Tensor<2>,
}

impl Decoder {
    /// [`log_probs`](Self::log_probs), to be followed by [`Pass::backward`].
    ///
    /// # Panics
    /// As `log_probs`; and if the decoder's device does not record gradients.
    pub fn pass(
        &self,
        rows: &[&[u32]],
        score: &[Vec<bool>],
        temperature: f64,
        activations: Activations,
    ) -> Pass<'_> {
        assert!(self.device().is_autodiff(), "a pass is for training");
        match activations {
            Activations::Kept => {
                let log_probs = self.log_probs(rows, score, temperature);
                Pass { decoder: self, log_probs: log_probs.clone().inner(), kept: Kept::Graph(log_probs) }
            }
            Activations::Recomputed => {
                let (log_probs, inputs) = self.valid().trace(rows, score, temperature);
                Pass { decoder: self, log_probs, kept: Kept::Inputs(inputs) }
            }
        }
    }

    /// The forward pass without a graph, layer inputs kept.
    fn trace(&self, rows: &[&[u32]], score: &[Vec<bool>], temperature: f64) -> (Tensor<2>, Inputs) {
        let forest = Forest::new(rows);
        let scored = Scored::new(&forest, rows, score);
        let device = self.device();
        let ids = ids(&forest.ids(rows), &device);
        let mut layers = Vec::with_capacity(self.layers.len());
        let placements = forest.placements(&self.rope, &device);
        let norm = self.states(self.embed(ids.clone()), &placements, |x| layers.push(x.clone()));
        let log_probs = self.scored_log_probs(norm.clone(), &scored, temperature);
        (log_probs, Inputs { ids, forest, scored, temperature, layers, norm })
    }
}

impl Pass<'_> {
    /// `[rows, width]`, as [`Decoder::log_probs`], without a graph.
    pub fn log_probs(&self) -> Tensor<2> {
        self.log_probs.clone()
    }

    /// The gradient of every trainable parameter of `Σ slopes · log_probs`, `slopes` being `[rows, width]` without a graph.
    pub fn backward(self, slopes: Tensor<2>) -> GradientsParams {
        match self.kept {
            Kept::Graph(log_probs) => {
                let gradients = (log_probs * Tensor::from_inner(slopes)).sum().backward();
                GradientsParams::from_grads(gradients, self.decoder)
            }
            Kept::Inputs(inputs) => inputs.backward(self.decoder, slopes),
        }
    }
}

impl Inputs {
    fn backward(self, decoder: &Decoder, slopes: Tensor<2>) -> GradientsParams {
        let mut gradients = GradientsAccumulator::new();
        if self.scored.targets.is_empty() {
            return gradients.grads();
        }
        let Self { ids, forest, scored, temperature, layers, norm } = self;
        let device = norm.device();
        let predictors = scored.predictors(&device);

        // Norm and head, in chunks of tokens.
        let states = norm.clone().select(0, predictors.clone());
        let slopes = scored.gather(slopes);
        let mut state_slopes = Vec::new();
        for chunk in decoder.chunks(scored.targets.len()) {
            let slopes = Tensor::from_inner(slopes.clone().slice([chunk.clone()]));
            let targets = &scored.targets[chunk.clone()];
            let (slope, part) = through(decoder, states.clone().slice([chunk]), |states| {
                let states = decoder.norm.forward(states);
                (decoder.token_log_probs(states, targets, temperature) * slopes).sum()
            });
            state_slopes.push(slope);
            gradients.accumulate(decoder, part);
        }
        let mut slope = norm.zeros_like().select_assign(
            0,
            predictors,
            Tensor::cat(state_slopes, 0),
            IndexingUpdateOp::Add,
        );
        drop((norm, states));

        let placements = forest.placements(&decoder.rope, &decoder.device());
        for (layer, input) in decoder.layers.iter().zip(layers).rev() {
            let (next, part) = through(decoder, input, |x| {
                (layer.forward(x, &placements, None) * Tensor::from_inner(slope.clone())).sum()
            });
            slope = next;
            gradients.accumulate(decoder, part);
        }

        if decoder.embed_tokens.weight.is_require_grad() {
            let embedded = decoder.embed(Tensor::from_inner(ids));
            let part = (embedded * Tensor::from_inner(slope)).sum().backward();
            gradients.accumulate(decoder, GradientsParams::from_grads(part, decoder));
        }
        gradients.grads()
    }
}

/// The gradients of `f(input)` by its input and by the decoder's parameters.
fn through(
    decoder: &Decoder,
    input: Tensor<2>,
    f: impl FnOnce(Tensor<2>) -> Tensor<1>,
) -> (Tensor<2>, GradientsParams) {
    let input = Tensor::from_inner(input).require_grad();
    let mut gradients = f(input.clone()).backward();
    let slope = input.grad_remove(&mut gradients).expect("the input takes part");
    (slope, GradientsParams::from_grads(gradients, decoder))
}
