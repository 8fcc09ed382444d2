//! What passes find beside gradients, exchanged between processes and gathered over a step.

use crate::batch::Row;
use crate::team::Team;
use rex_grpo::TokenRatio;
use rex_rollout::Author;
use std::ops::Range;

/// What a pass over some rows found. Losses add up over the passes of a mini-batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub pg_loss: f64,
    pub kl_loss: f64,
    /// The tokens of the loss, row by row.
    pub tokens: Vec<TokenRatio<Author>>,
    /// Largest `|log π_θ − log π_old|` over them.
    pub log_prob_difference: f64,
}

/// What the updates of a step did.
#[derive(Debug, Default)]
pub struct Updates {
    pub pg_loss: Vec<f64>,
    pub kl_loss: Vec<f64>,
    pub grad_norm: Vec<f64>,
    pub tokens: Vec<TokenRatio<Author>>,
    /// Before the first update: how far the training forward is from what sampling recorded.
    pub log_prob_difference: f64,
    /// Updates that were skipped because the loss or the gradient was not finite.
    pub skipped: usize,
}

impl Updates {
    /// Takes in what the passes of one update found; returns its loss.
    pub(crate) fn take(&mut self, found: Vec<Found>, norm: f64) -> f64 {
        let first = self.grad_norm.is_empty();
        let (mut pg_loss, mut kl_loss) = (0.0, 0.0);
        for pass in found {
            pg_loss += pass.pg_loss;
            kl_loss += pass.kl_loss;
            if first {
                self.log_prob_difference = max_or_nan(self.log_prob_difference, pass.log_prob_difference);
            }
            self.tokens.extend(pass.tokens);
        }
        self.pg_loss.push(pg_loss);
        self.kl_loss.push(kl_loss);
        self.grad_norm.push(norm);
        pg_loss + kl_loss
    }
}

/// The larger number; NaN if either is, which [`f64::max`] would hide.
pub(crate) fn max_or_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || a > b { a } else { b }
}

/// What all `passes` found, in their order, where this process did those of its share in theirs.
pub(crate) fn exchange(team: &dyn Team, passes: &[Vec<&Row>], own: Vec<Found>) -> Vec<Found> {
    if team.size() == 1 {
        return own;
    }
    // Every pass has its place among the numbers, and no two processes fill the same: their sum is all of them.
    let places = passes.iter().scan(0, |end, rows| {
        let start = *end;
        *end += 3 + 2 * authors(rows).count();
        Some(start..*end)
    });
    let places: Vec<Range<usize>> = places.collect();
    let mut numbers = vec![0.0; places.last().map_or(0, |place| place.end)];
    for (place, own) in team.deal(&places).zip(own) {
        own.write(&mut numbers[place.clone()]);
    }
    team.sum_f64(&mut numbers);
    passes.iter().zip(places).map(|(rows, place)| Found::read(&numbers[place], authors(rows))).collect()
}

/// The authors of the loss's tokens.
fn authors<'r>(rows: &'r [&Row]) -> impl Iterator<Item = Author> + 'r {
    let tokens = rows.iter().flat_map(|row| row.authors.iter().zip(&row.loss_mask));
    tokens.filter(|(_, in_loss)| **in_loss).map(|(author, _)| *author)
}

impl Found {
    fn write(&self, place: &mut [f64]) {
        let (losses, tokens) = place.split_at_mut(3);
        losses.copy_from_slice(&[self.pg_loss, self.kl_loss, self.log_prob_difference]);
        for (pair, token) in tokens.chunks_exact_mut(2).zip(&self.tokens) {
            pair.copy_from_slice(&[token.log_ratio, f64::from(token.clipped)]);
        }
    }

    fn read(place: &[f64], authors: impl Iterator<Item = Author>) -> Self {
        let (losses, tokens) = place.split_at(3);
        let token = |(author, pair): (Author, &[f64])| TokenRatio {
            author,
            log_ratio: pair[0],
            clipped: pair[1] != 0.0,
        };
        Self {
            pg_loss: losses[0],
            kl_loss: losses[1],
            log_prob_difference: losses[2],
            tokens: authors.zip(tokens.chunks_exact(2)).map(token).collect(),
        }
    }
}
