//! Every recorded advantage of the official code.

use crate::support::*;
use rex_grpo::advantages::{dense, outcome, unrewarded_groups};
use rex_grpo::{Advantage, Singleton};
use serde_json::Value;
use std::collections::BTreeMap;

const TOLERANCE: f64 = 1e-9;

#[test]
fn advantages() {
    for case in golden("advantages.json") {
        let (advantages, returns) = estimate(&case["input"]);
        let expected = &case["expected"];
        match advantages {
            Some(advantages) => {
                assert_rows_close(&advantages, &matrix(&expected["advantages"]), TOLERANCE, name(&case));
                assert_rows_close(&returns, &matrix(&expected["returns"]), TOLERANCE, name(&case));
            }
            None => assert_eq!(expected["error"], "ValueError", "{}", name(&case)),
        }
        if let Some(dead) = expected["num_leq_threshold"].as_u64() {
            let rewards = totals(&matrix(&case["input"]["token_level_rewards"]));
            let found = unrewarded_groups(&rewards, &groups(&case["input"]["index"]), 1e-6);
            assert_eq!(found.len() as u64, dead, "{}", name(&case));
        }
    }
}

/// Advantages and returns per token; `None` where the estimator has no value.
fn estimate(input: &Value) -> (Option<Vec<Vec<f64>>>, Vec<Vec<f64>>) {
    let rewards = matrix(&input["token_level_rewards"]);
    let mask = matrix(&input["response_mask"]);
    let estimator = input["estimator"].as_str().unwrap();
    let dense = match estimator {
        "reinforce_plus_plus" => Some(dense::reinforce_plus_plus(&rewards, &mask, number(&input["gamma"]))),
        "remax" => Some(dense::remax(&rewards, &mask, &numbers(&input["reward_baselines"]))),
        "gae" => {
            let (gamma, lambda) = (number(&input["gamma"]), number(&input["lam"]));
            Some(dense::gae(&rewards, &matrix(&input["values"]), &mask, gamma, lambda))
        }
        _ => None,
    };
    if let Some(dense) = dense {
        return (Some(dense.advantages), dense.returns);
    }
    let std = input["norm_adv_by_std"].as_bool().unwrap_or(true);
    let epsilon = input["epsilon"].as_f64().unwrap_or(1e-6);
    // The official score sums the whole reward row, without its mask.
    let (rewards, groups) = (totals(&rewards), groups(&input["index"]));
    let tokens: Vec<usize> = totals(&mask).into_iter().map(|sum| sum as usize).collect();
    let per_transcript = match estimator {
        "grpo_passk" => outcome::pass_at_k(&rewards, &groups, std),
        "grpo" => {
            let singleton = Singleton::Official;
            Some(Advantage::Grpo { std, epsilon, singleton }.of(&rewards, &groups, &tokens))
        }
        "rloo" => Some(Advantage::Rloo.of(&rewards, &groups, &tokens)),
        "opo" => Some(Advantage::Opo.of(&rewards, &groups, &tokens)),
        "reinforce_plus_plus_baseline" => {
            Some(Advantage::Reinforce { baseline: true }.of(&rewards, &groups, &tokens))
        }
        other => panic!("unknown estimator {other}"),
    };
    let spread = |(value, mask): (&f64, &Vec<f64>)| mask.iter().map(|m| value * m).collect();
    let per_token = per_transcript.map(|all| all.iter().zip(&mask).map(spread).collect::<Vec<_>>());
    (per_token.clone(), per_token.unwrap_or_default())
}

/// With the reward at the end and no discount, REINFORCE++ per token is ours per transcript.
#[test]
fn reinforce_per_transcript_is_reinforce_per_token() {
    let mask = vec![vec![1.0, 1.0, 1.0], vec![1.0, 0.0, 0.0], vec![1.0, 1.0, 0.0]];
    let rewards = vec![vec![0.0, 0.0, 1.0], vec![0.0; 3], vec![0.0, 0.25, 0.0]];
    let per_token = dense::reinforce_plus_plus(&rewards, &mask, 1.0).advantages;
    let plain = Advantage::Reinforce { baseline: false };
    for (row, value) in plain.of(&[1.0, 0.0, 0.25], &[0, 1, 2], &[3, 1, 2]).into_iter().enumerate() {
        assert_close(per_token[row][0], value, 1e-12, "first token");
    }
}

fn totals(rows: &[Vec<f64>]) -> Vec<f64> {
    rows.iter().map(|row| row.iter().sum()).collect()
}

fn groups(index: &Value) -> Vec<usize> {
    let mut known = BTreeMap::new();
    let number_of = |id: &Value| {
        let next = known.len();
        *known.entry(id.to_string()).or_insert(next)
    };
    index.as_array().unwrap().iter().map(number_of).collect()
}
