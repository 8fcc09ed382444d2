//! Log-probabilities of given tokens: the training forward.

use burn::tensor::{DType, Device, IndexingUpdateOp, Int, Tensor, TensorData};

use crate::decoder::Decoder;

/// Logits are computed for so many elements at a time: 128 MiB in f32, what WebGPU binds at most by default.
const CHUNK: usize = 1 << 25;

impl Decoder {
    /// `log p(rows[r][t] | rows[r][..t])` where `score[r][t]`, 0 elsewhere; `[rows, width]` in f32 with the rows padded
    /// on the right. `p` is the softmax of `logits / temperature` over the full vocabulary. Differentiable.
    ///
    /// Logits exist only for the scored tokens.
    ///
    /// # Panics
    /// If `score` has another shape than `rows`, or asks for the first token of a row, which nothing predicts.
    pub fn log_probs(&self, rows: &[&[u32]], score: &[Vec<bool>], temperature: f64) -> Tensor<2> {
        let device = self.device();
        let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        let mut places = Vec::new();
        let mut targets = Vec::new();
        assert_eq!(rows.len(), score.len(), "one list of flags a row");
        for (r, (row, flags)) in rows.iter().zip(score).enumerate() {
            assert_eq!(row.len(), flags.len(), "row {r}: one flag a token");
            assert!(flags.first() != Some(&true), "row {r}: the first token has no log-probability");
            for t in (0..row.len()).filter(|t| flags[*t]) {
                places.push((r * width + t) as i32);
                targets.push(row[t]);
            }
        }
        let zeros = Tensor::<1>::zeros([rows.len() * width], (&device, DType::F32));
        if targets.is_empty() {
            return zeros.reshape([rows.len(), width]);
        }
        let hidden = self.forward(padded(rows, width, &device), None);
        let [_, _, features] = hidden.dims();
        let places = ids(&places, &device);
        // The token before predicts.
        let hidden = hidden.reshape([rows.len() * width, features]).select(0, places.clone().sub_scalar(1));
        zeros
            .select_assign(
                0,
                places,
                self.token_log_probs(hidden, &targets, temperature),
                IndexingUpdateOp::Add,
            )
            .reshape([rows.len(), width])
    }

    /// `log p(targets[i])` after the state `hidden[i]`: `[n, hidden]` to `[n]`, in f32.
    pub(crate) fn token_log_probs(&self, hidden: Tensor<2>, targets: &[u32], temperature: f64) -> Tensor<1> {
        let [n, features] = hidden.dims();
        let device = hidden.device();
        let size = logits_chunk(self);
        let chunks = (0..n).step_by(size).map(|start| {
            let count = size.min(n - start);
            let hidden = hidden.clone().slice([start..start + count, 0..features]);
            let targets: Vec<i32> = targets[start..start + count].iter().map(|id| *id as i32).collect();
            let targets = ids(&targets, &device).reshape([count, 1]);
            let logits = self.logits(hidden).cast(DType::F32).div_scalar(temperature);
            // A log-softmax that is gathered before the normaliser is subtracted: one tensor over the vocabulary less.
            let shifted = logits.clone() - logits.detach().max_dim(1);
            let chosen = shifted.clone().gather(1, targets);
            (chosen - shifted.exp().sum_dim(1).log()).reshape([count])
        });
        Tensor::cat(chunks.collect(), 0)
    }
}

/// Places for which logits are computed at a time.
pub(crate) fn logits_chunk(decoder: &Decoder) -> usize {
    (CHUNK / decoder.embed_tokens.weight.dims()[0]).max(1)
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
