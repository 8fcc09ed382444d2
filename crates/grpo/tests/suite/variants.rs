//! The policy losses that no recorded case covers, by hand.

use crate::support::*;
use rex_grpo::{PolicyInput, PolicyLoss, RatioLevel};

/// Loss and gradient of one row whose last token is not in the loss; `log_ratio` is `log π_θ`, `log π_mix` is 0.
fn check(loss: PolicyLoss, level: RatioLevel, log_ratio: [f64; 3], advantage: f64, expected: [[f64; 2]; 2]) {
    let [expected_loss, expected_gradient] = expected;
    let in_loss = [vec![1.0, 1.0, 0.0]];
    let mut per_token = None;
    let (_, gradient) = with_gradient(tensor(&[log_ratio.to_vec()]), |log_probs| {
        let behaviour = log_probs.zeros_like();
        let advantages = tensor(&[vec![advantage]]);
        let term = loss.term(PolicyInput { log_probs, behaviour, level, advantages, mask: mask(&in_loss) });
        per_token = Some(rows_of(term.loss.clone()));
        term.loss.mask_fill(mask(&in_loss).bool_not(), 0.0).sum()
    });
    let found = per_token.unwrap()[0][..2].to_vec();
    let what = format!("{loss:?} {level:?}");
    assert_rows_close(&[found], &[expected_loss.to_vec()], 1e-12, &what);
    assert_rows_close(&[gradient[0][..2].to_vec()], &[expected_gradient.to_vec()], 1e-12, &what);
    assert_eq!(gradient[0][2], 0.0);
}

#[test]
fn one_ratio_per_transcript() {
    let (a, b) = (0.05_f64, 0.11_f64);
    let open = PolicyLoss::Clipped { clip_ratio_low: 1.0, clip_ratio_high: f64::INFINITY, dual_clip: None };
    let product = (a + b).exp();
    check(open, RatioLevel::Transcript, [a, b, 9.0], -2.0, [[2.0 * product; 2]; 2]);
    check(open, RatioLevel::Token, [a, b, 9.0], -2.0, [[2.0 * a.exp(), 2.0 * b.exp()]; 2]);
    // GSPO: the geometric mean, here e^0.08; clipped above at 1.05 for a positive advantage only.
    let gspo = PolicyLoss::Gspo { clip_ratio_low: 0.05, clip_ratio_high: 0.05 };
    let mean = ((a + b) / 2.0).exp();
    check(gspo, RatioLevel::Token, [a, b, 9.0], -2.0, [[2.0 * mean; 2]; 2]);
    check(gspo, RatioLevel::Token, [a, b, 9.0], 2.0, [[-2.1; 2], [0.0; 2]]);
}

#[test]
fn dual_clip_bounds_the_loss_of_a_bad_transcript() {
    let dual = PolicyLoss::Clipped { clip_ratio_low: 0.2, clip_ratio_high: 0.2, dual_clip: Some(3.0) };
    let (large, small) = (10.0_f64.ln(), 2.0_f64.ln());
    check(dual, RatioLevel::Token, [large, small, 0.0], -1.0, [[3.0, 2.0], [0.0, 2.0]]);
    // A positive advantage is left alone.
    check(dual, RatioLevel::Token, [large, 0.5_f64.ln(), 0.0], 1.0, [[-1.2, -0.5], [0.0, -0.5]]);
}

#[test]
fn cispo_keeps_every_gradient_at_a_bounded_weight() {
    let cispo = PolicyLoss::Cispo { clip_ratio_low: 0.2, clip_ratio_high: 0.2 };
    let (large, small) = (10.0_f64.ln(), 0.9_f64.ln());
    let expected = [[-1.2 * large, -0.9 * small], [-1.2, -0.9]];
    check(cispo, RatioLevel::Token, [large, small, 0.0], 1.0, expected);
}

#[test]
fn an_overflowing_ratio_is_clipped_not_nan() {
    let loss = PolicyLoss::default();
    for level in [RatioLevel::Token, RatioLevel::Transcript] {
        check(loss, level, [900.0, 900.0, 0.0], 1.0, [[-1.2; 2], [0.0; 2]]);
    }
}
