//! What supervised training learns from.

/// Token ids, and which of them are in the loss.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Example {
    ids: Vec<u32>,
    learnt: Vec<bool>,
}

impl Example {
    /// Appends tokens. The first of an example is never in the loss: nothing predicts it.
    pub fn push(&mut self, ids: &[u32], learnt: bool) {
        self.ids.extend_from_slice(ids);
        self.learnt.resize(self.ids.len(), learnt);
        if let Some(first) = self.learnt.first_mut() {
            *first = false;
        }
    }

    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// One flag a token.
    pub fn learnt(&self) -> &[bool] {
        &self.learnt
    }

    /// Tokens in the loss.
    pub fn targets(&self) -> usize {
        self.learnt.iter().filter(|learnt| **learnt).count()
    }
}
