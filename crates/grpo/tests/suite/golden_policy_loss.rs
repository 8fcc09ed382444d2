//! Every recorded policy loss, aggregation and KL penalty, with gradients.

use crate::support::*;
use rex_grpo::{Aggregation, BatchTotals, Kl, PolicyInput, PolicyLoss, RatioLevel};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

/// The official masked mean divides by this much more than the count.
const EPSILON: f64 = 1e-8;

#[test]
fn policy_loss_aggregation_and_kl() {
    for case in golden("policy_loss.json") {
        match case["input"]["kind"].as_str().unwrap() {
            "policy_loss" => policy_loss(&case),
            "agg_loss" => aggregation(&case),
            "kl_penalty" => kl(&case),
            other => panic!("unknown kind {other}"),
        }
    }
}

fn policy_loss(case: &Value) {
    let (input, expected) = (&case["input"], &case["expected"]);
    let response_mask = matrix(&input["response_mask"]);
    let aggregation: Aggregation = parse(&input["loss_agg_mode"]).unwrap();
    let loss = PolicyLoss::Clipped {
        clip_ratio_low: number(&input["clip_low"]),
        clip_ratio_high: number(&input["clip_high"]),
        dual_clip: None,
    };
    let mut statistics = None;
    let (value, gradient) = with_gradient(tensor(&matrix(&input["log_prob"])), |log_probs| {
        let term = loss.term(PolicyInput {
            log_probs,
            behaviour: tensor(&matrix(&input["old_log_prob"])),
            level: RatioLevel::Token,
            advantages: tensor(&matrix(&input["advantages"])),
            mask: mask(&response_mask),
        });
        let clipped: Vec<bool> = term.clipped.into_data().iter::<bool>().collect();
        statistics = Some((clipped, rows_of(term.log_ratio)));
        aggregation.sum(term.loss, mask(&response_mask), &totals(&response_mask))
    });
    let (clipped, log_ratio) = statistics.unwrap();

    let in_loss: Vec<bool> = response_mask.concat().iter().map(|&m| m != 0.0).collect();
    let tokens = in_loss.iter().filter(|&&m| m).count() as f64;
    let clip_count = in_loss.iter().zip(&clipped).filter(|(m, c)| **m && **c).count() as f64;
    assert_close(clip_count / (tokens + EPSILON), number(&expected["clipfrac"]), TOLERANCE, name(case));
    let kl = -log_ratio.concat().iter().sum::<f64>() / (tokens + EPSILON);
    assert_close(kl, number(&expected["ppo_kl"]), TOLERANCE, name(case));
    let flags = expected["clip_mask"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    for ((found, flag), in_loss) in clipped.iter().zip(flags).zip(in_loss) {
        // We set the ratio of masked tokens to 1; the official mask is not masked.
        assert!(!in_loss || Some(*found) == flag.as_bool(), "{}: clip mask", name(case));
    }

    if number(&expected["loss"]).is_nan() {
        // A row without tokens is 0/0, officially NaN for the whole batch. Ours is 0: the mean of the rows goes on.
        assert_eq!(name(case), "masked_row_seq_mean_token_mean_is_nan");
        assert!(value.is_finite() && gradient.concat().iter().all(|g| g.is_finite()));
        return;
    }
    assert_close(value, number(&expected["loss"]), TOLERANCE, name(case));
    // Not recorded where rounding at the edge of the clip decides.
    if !expected["grad_log_prob"].is_null() {
        assert_rows_close(&gradient, &matrix(&expected["grad_log_prob"]), TOLERANCE, name(case));
    }
}

fn aggregation(case: &Value) {
    let (input, expected) = (&case["input"], &case["expected"]);
    let loss_mask = matrix(&input["loss_mask"]);
    let aggregation: Aggregation = parse(&input["loss_agg_mode"]).unwrap();
    let (value, gradient) = with_gradient(tensor(&matrix(&input["loss_mat"])), |values| {
        aggregation.sum(values, mask(&loss_mask), &totals(&loss_mask))
    });
    assert_close(value, number(&expected["loss"]), TOLERANCE, name(case));
    assert_rows_close(&gradient, &matrix(&expected["grad_loss_mat"]), TOLERANCE, name(case));
}

fn kl(case: &Value) {
    let (input, expected) = (&case["input"], &case["expected"]);
    let Some(kl) = parse::<Kl>(&input["kl_kind"]) else {
        return assert_eq!(expected["error"], "NotImplementedError", "{}", name(case));
    };
    let reference = tensor(&matrix(&input["ref_log_prob"]));
    let mut estimate = None;
    let (_, gradient) = with_gradient(tensor(&matrix(&input["log_prob"])), |log_probs| {
        let values = kl.estimate(log_probs, reference);
        estimate = Some(rows_of(values.clone()));
        values.sum()
    });
    assert_rows_close(&estimate.unwrap(), &matrix(&expected["kl"]), TOLERANCE, name(case));
    assert_rows_close(&gradient, &matrix(&expected["grad_log_prob_of_sum"]), TOLERANCE, name(case));
}

fn totals(mask: &[Vec<f64>]) -> BatchTotals {
    let flags: Vec<Vec<bool>> = mask.iter().map(|row| row.iter().map(|&m| m != 0.0).collect()).collect();
    BatchTotals::of(flags.iter().map(Vec::as_slice))
}
