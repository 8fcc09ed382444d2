//! What supervised training learns from.

/// Token ids, and the weight of each in the loss.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Example {
    ids: Vec<u32>,
    weights: Vec<f32>,
}

impl Example {
    /// Appends tokens that are in the loss, or are not.
    pub fn push(&mut self, ids: &[u32], learnt: bool) {
        self.push_weighted(ids, if learnt { 1.0 } else { 0.0 });
    }

    /// Appends tokens of a weight from 0 to 1. The first of an example is never in the loss: nothing predicts it.
    pub fn push_weighted(&mut self, ids: &[u32], weight: f32) {
        self.ids.extend_from_slice(ids);
        self.weights.resize(self.ids.len(), weight);
        if let Some(first) = self.weights.first_mut() {
            *first = 0.0;
        }
    }

    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// One a token; 0 where it is not learnt.
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// Which tokens are in the loss.
    pub fn learnt(&self) -> impl Iterator<Item = bool> {
        self.weights.iter().map(|&weight| weight > 0.0)
    }

    /// Tokens in the loss.
    pub fn targets(&self) -> usize {
        self.learnt().filter(|&learnt| learnt).count()
    }
}
