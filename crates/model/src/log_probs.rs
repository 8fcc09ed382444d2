//! Log-probabilities of given tokens: the training forward.

use std::collections::HashMap;
use std::ops::Range;

use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

use crate::decoder::Decoder;
use crate::forest::Forest;

/// Logits are computed for so many elements at a time: 128 MiB in f32, what WebGPU binds at most by default.
pub(crate) const CHUNK: usize = 1 << 25;

impl Decoder {
    /// `log p(rows[r][t] | rows[r][..t])` where `score[r][t]`, 0 elsewhere; `[rows, width]` in f32 with the rows padded
    /// on the right. `p` is the softmax of `logits / temperature` over the full vocabulary. Differentiable.
    ///
    /// Logits exist only for the scored tokens. What rows begin with in common is computed once, as a `Forest`.
    ///
    /// # Panics
    /// If there are no rows, or if `score` has another shape than `rows` or asks for the first token of a row, which nothing predicts.
    pub fn log_probs(&self, rows: &[&[u32]], score: &[Vec<bool>], temperature: f64) -> Tensor<2> {
        let forest = Forest::new(rows);
        let scored = Scored::new(&forest, rows, score);
        let device = self.device();
        let x = self.embed(ids(&forest.ids(rows), &device));
        let states = self.states(x, &forest.placements(&self.rope, &device), |_| ());
        self.scored_log_probs(states, &scored, temperature)
    }

    /// Those of a pass, from its states before the final norm, `[tokens, hidden]`.
    pub(crate) fn scored_log_probs(&self, states: Tensor<2>, scored: &Scored, temperature: f64) -> Tensor<2> {
        let device = states.device();
        if scored.targets.is_empty() {
            return Tensor::zeros([scored.rows, scored.width], (&device, DType::F32));
        }
        let states = self.norm.forward(states.select(0, scored.predictors(&device)));
        scored.scatter(self.token_log_probs(states, &scored.targets, temperature))
    }

    /// `log p(targets[i])` after the state `hidden[i]`: `[n, hidden]` to `[n]`, in f32.
    pub(crate) fn token_log_probs(&self, hidden: Tensor<2>, targets: &[u32], temperature: f64) -> Tensor<1> {
        let [n, features] = hidden.dims();
        let device = hidden.device();
        let chunks = self.chunks(n).map(|chunk| {
            let count = chunk.len();
            let hidden = hidden.clone().slice([chunk.clone(), 0..features]);
            let targets: Vec<i32> = targets[chunk].iter().map(|id| *id as i32).collect();
            let targets = ids(&targets, &device).reshape([count, 1]);
            let logits = self.logits(hidden).cast(DType::F32).div_scalar(temperature);
            // A log-softmax that is gathered before the normaliser is subtracted: one tensor over the vocabulary less.
            let shifted = logits.clone() - logits.detach().max_dim(1);
            let chosen = shifted.clone().gather(1, targets);
            (chosen - shifted.exp().sum_dim(1).log()).reshape([count])
        });
        Tensor::cat(chunks.collect(), 0)
    }

    /// `0..n` in pieces whose logits fit into [`CHUNK`].
    pub(crate) fn chunks(&self, n: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let size = (CHUNK / self.embed_tokens.weight.dims()[0]).max(1);
        (0..n).step_by(size).map(move |start| start..(start + size).min(n))
    }
}

/// The tokens of a batch whose log-probabilities are asked for.
pub(crate) struct Scored {
    rows: usize,
    /// Tokens a row, padding included.
    width: usize,
    /// Of each scored token, in order: its place in the flattened batch.
    places: Vec<i32>,
    /// Which prediction is its.
    prediction: Vec<i32>,
    /// Of each prediction, which rows that begin alike share: the token of the pass that predicts, and what is predicted.
    predictors: Vec<i32>,
    pub(crate) targets: Vec<u32>,
}

impl Scored {
    pub(crate) fn new(forest: &Forest, rows: &[&[u32]], score: &[Vec<bool>]) -> Self {
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let (mut places, mut prediction) = (Vec::new(), Vec::new());
        let (mut predictors, mut targets) = (Vec::new(), Vec::new());
        let mut known: HashMap<(i32, u32), i32> = HashMap::new();
        assert_eq!(rows.len(), score.len(), "one list of flags a row");
        for (r, (row, flags)) in rows.iter().zip(score).enumerate() {
            assert_eq!(row.len(), flags.len(), "row {r}: one flag a token");
            assert!(flags.first() != Some(&true), "row {r}: the first token has no log-probability");
            for t in (0..row.len()).filter(|t| flags[*t]) {
                let (predictor, target) = (forest.token(r, t - 1) as i32, row[t]);
                places.push((r * width + t) as i32);
                prediction.push(*known.entry((predictor, target)).or_insert_with(|| {
                    predictors.push(predictor);
                    targets.push(target);
                    targets.len() as i32 - 1
                }));
            }
        }
        Self { rows: rows.len(), width, places, prediction, predictors, targets }
    }

    pub(crate) fn predictors(&self, device: &Device) -> Tensor<1, Int> {
        ids(&self.predictors, device)
    }

    /// One value a prediction to `[rows, width]`, 0 where no token is scored.
    pub(crate) fn scatter(&self, values: Tensor<1>) -> Tensor<2> {
        let device = values.device();
        let places = ids(&self.places, &device).unsqueeze_dim::<2>(1);
        let values = values.select(0, ids(&self.prediction, &device));
        Tensor::<1>::zeros([self.rows * self.width], (&device, DType::F32))
            .scatter_nd(places, values, IndexingUpdateOp::Add)
            .reshape([self.rows, self.width])
    }

    /// The transpose of [`scatter`](Self::scatter): `[rows, width]` to one value a prediction, of which each is the sum over
    /// the tokens that share it.
    pub(crate) fn gather(&self, values: Tensor<2>) -> Tensor<1> {
        let device = values.device();
        let values = values.flatten::<1>(0, 1).select(0, ids(&self.places, &device));
        Tensor::<1>::zeros([self.targets.len()], (&device, DType::F32)).select_assign(
            0,
            ids(&self.prediction, &device),
            values,
            IndexingUpdateOp::Add,
        )
    }
}

/// `[rows, width]`, padded on the right with id 0.
pub(crate) fn padded(rows: &[&[u32]], width: usize, device: &Device) -> Tensor<2, Int> {
    let mut values = vec![0; rows.len() * width];
    for (row, ids) in rows.iter().enumerate() {
        for (place, id) in values[row * width..].iter_mut().zip(*ids) {
            *place = *id as i32;
        }
    }
    ids(&values, device).reshape([rows.len(), width])
}

pub(crate) fn ids(values: &[i32], device: &Device) -> Tensor<1, Int> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}
