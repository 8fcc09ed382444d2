//! Every recorded corrected log-probability, and the loss and gradient computed from it.

use crate::official::{KeyError, PrefixIndex};
use crate::support::*;
use burn::tensor::DType;
use rex_grpo::mixture::log_mixture;
use rex_grpo::{Aggregation, BatchTotals, Kl, PolicyInput, PolicyLoss, Probe, RatioLevel};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;
/// The official formula run in f32 is this far from itself in f64 where `log π_old > −20`.
const TOLERANCE_F32: f64 = 2e-6;
const REVISION_PROMPT: f64 = 5.0;

#[test]
fn corrected_old_log_prob() {
    for case in golden("corrected_old_logprob.json") {
        let (input, expected) = (&case["input"], &case["expected"]);
        let Ok(rows) = mixed_rows(input) else {
            assert_eq!(expected["error"], "KeyError", "{}", name(&case));
            continue;
        };
        let mu: Vec<Vec<f64>> =
            rows.iter().map(|row| row.log_mu.iter().map(|log| log.exp()).collect()).collect();
        let corrected: Vec<Vec<f64>> = rows.into_iter().map(|row| row.log_mix).collect();
        assert_rows_close(&mu, &matrix(&expected["mu_prob"]), TOLERANCE, name(&case));
        assert_rows_close(&corrected, &matrix(&expected["corrected_old_log_prob"]), TOLERANCE, name(&case));
        if !expected["corrected_old_log_prob_f32"].is_null() {
            check_f32(&case, &corrected);
        }
        if input["kind"] == "end_to_end" {
            end_to_end(&case, &corrected);
        }
    }
}

struct MixedRow {
    log_mu: Vec<f64>,
    log_mix: Vec<f64>,
}

/// Our functions, told to follow the official rules: `j` = the offset of the prompt, the official prefix index, and
/// responses without their questions as rows.
fn mixed_rows(input: &Value) -> Result<Vec<MixedRow>, KeyError> {
    let prompts: Vec<_> = input["prompt_sequences"].as_array().unwrap().iter().map(ids).collect();
    let index = PrefixIndex::new(&prompts);
    let alpha = number(&input["alpha"]);
    let question = number(&input["prompt_length"]) as usize;
    let originals = numbers(&input["original_mask"]);
    let (log_old, attention) = (matrix(&input["old_log_probs"]), matrix(&input["attention_mask"]));
    let (components, responses) = (matrix(&input["component_mask"]), &input["responses"]);
    let mixed = |row: usize| {
        let of_prompt: Vec<usize> =
            (0..log_old[row].len()).filter(|t| components[row][question + t] == REVISION_PROMPT).collect();
        let is_original = originals[row] == 1.0;
        let log_mu = match of_prompt.first() {
            None if is_original => vec![f64::NEG_INFINITY; log_old[row].len()],
            None => log_old[row].clone(),
            Some(&start) => {
                let response = ids(&responses[row]);
                let prompt: Vec<u32> = of_prompt.iter().map(|&t| response[t]).collect();
                let density = index.token_probs(&prompt)?;
                let probe = Probe {
                    prompt: start..start + prompt.len(),
                    prompt_log_density: density.iter().map(|p| p.ln()).collect(),
                    prefix_tokens: start,
                    log_failure_rate: number(&input["error_rate"]).ln(),
                };
                let log_mu = probe.log_mu(&log_old[row]).into_iter().enumerate();
                // Two cases have an "original" with a prompt in it, which the official code gives a μ there only.
                let nowhere_else = |(t, log)| {
                    if is_original && !of_prompt.contains(&t) { f64::NEG_INFINITY } else { log }
                };
                log_mu.map(nowhere_else).collect()
            }
        };
        // Padding keeps log π_old; our rows end where the attention does.
        let end = attention[row][question..].iter().rposition(|&a| a == 1.0).map_or(0, |last| last + 1);
        let mut log_mix = log_mixture(&log_old[row][..end], &log_mu[..end], alpha);
        log_mix.extend(&log_old[row][end..]);
        Ok(MixedRow { log_mu, log_mix })
    };
    (0..log_old.len()).map(mixed).collect()
}

fn check_f32(case: &Value, corrected: &[Vec<f64>]) {
    let log_old = matrix(&case["input"]["old_log_probs"]);
    let in_f32 = rows_of(tensor_of(corrected, DType::F32));
    for (r, recorded) in matrix(&case["expected"]["corrected_old_log_prob_f32"]).iter().enumerate() {
        for (t, expected) in recorded.iter().enumerate() {
            // Below, the official exp underflows towards −inf: the log-sum-exp has the f64 value, checked above.
            if log_old[r][t] > -20.0 {
                assert_close(in_f32[r][t], *expected, TOLERANCE_F32, &format!("{} in f32", name(case)));
            }
        }
    }
}

fn end_to_end(case: &Value, corrected: &[Vec<f64>]) {
    let (input, expected) = (&case["input"], &case["expected"]);
    let loss_mask = matrix(&input["loss_mask"]);
    let flags: Vec<Vec<bool>> = loss_mask.iter().map(|row| row.iter().map(|&m| m != 0.0).collect()).collect();
    let totals = BatchTotals::of(flags.iter().map(Vec::as_slice));
    let aggregation: Aggregation = parse(&input["loss_agg_mode"]).unwrap();
    let kl: Option<Kl> = parse(&input["kl_kind"]).unwrap();
    let loss = PolicyLoss::Clipped {
        clip_ratio_low: number(&input["clip_low"]),
        clip_ratio_high: number(&input["clip_high"]),
        dual_clip: None,
    };
    let mut parts = None;
    let (total, gradient) = with_gradient(tensor(&matrix(&input["log_prob"])), |log_probs| {
        let term = loss.term(PolicyInput {
            log_probs: log_probs.clone(),
            behaviour: tensor(corrected),
            level: RatioLevel::Token,
            advantages: tensor(&matrix(&input["advantages"])),
            mask: mask(&loss_mask),
        });
        let policy = aggregation.sum(term.loss, mask(&loss_mask), &totals);
        let distance = kl.map_or(policy.zeros_like(), |kl| {
            let estimate = kl.estimate(log_probs, tensor(&matrix(&input["ref_log_prob"])));
            aggregation.sum(estimate, mask(&loss_mask), &totals)
        });
        let clipped: Vec<bool> = term.clipped.into_data().iter::<bool>().collect();
        parts = Some((scalar(policy.clone()), scalar(distance.clone()), rows_of(term.log_ratio), clipped));
        policy + distance * number(&input["kl_coef"])
    });
    let (policy, distance, log_ratio, clipped) = parts.unwrap();
    assert_close(policy, number(&expected["pg_loss"]), TOLERANCE, name(case));
    if !expected["kl_loss"].is_null() {
        assert_close(distance, number(&expected["kl_loss"]), TOLERANCE, name(case));
    }
    assert_close(total, number(&expected["total_loss"]), TOLERANCE, name(case));
    assert_rows_close(&gradient, &matrix(&expected["grad_log_prob"]), TOLERANCE, name(case));

    let in_loss = flags.concat();
    let tokens = totals.tokens as f64 + 1e-8;
    let ratio = matrix(&expected["ratio"]).concat();
    let clip_mask = expected["clip_mask"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    for (t, flag) in clip_mask.enumerate().filter(|(t, _)| in_loss[*t]) {
        assert_close(log_ratio.concat()[t].exp(), ratio[t], TOLERANCE, name(case));
        assert_eq!(Some(clipped[t]), flag.as_bool(), "{}: clip mask", name(case));
    }
    let clip_count = in_loss.iter().zip(&clipped).filter(|(m, c)| **m && **c).count() as f64;
    assert_close(clip_count / tokens, number(&expected["clipfrac"]), TOLERANCE, name(case));
    let ppo_kl = -log_ratio.concat().iter().sum::<f64>() / tokens;
    assert_close(ppo_kl, number(&expected["ppo_kl"]), TOLERANCE, name(case));
}
