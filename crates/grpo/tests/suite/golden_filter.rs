//! Every recorded trajectory filter.

use crate::support::*;
use rex_grpo::KeepRatio;
use rex_grpo::filter::{keep_count, likeliest, mean_log_prob};
use rex_grpo::statistics::alpha;
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

#[test]
fn trajectory_filter() {
    for case in golden("trajectory_filter.json") {
        let input = &case["input"];
        match input["kind"].as_str().unwrap() {
            "reorder_batch" => reorder(&case, official_keep(input) as i64),
            "reorder_batch_dapo" => reorder(&case, official_dapo_keep(input)),
            "keep_ratio" => keep_ratio(&case),
            "keep_num" => {
                assert_eq!(Some(official_keep(input) as u64), case["expected"]["keep_num"].as_u64());
                assert_close(product(input), number(&case["expected"]["product"]), TOLERANCE, name(&case));
            }
            other => panic!("unknown kind {other}"),
        }
    }
}

/// `keep` as in Python's `clones[:keep]`: a negative one leaves that many off the end.
fn reorder(case: &Value, keep: i64) {
    let (input, expected) = (&case["input"], &case["expected"]);
    let is_original = numbers(&input["original_mask"]);
    let (log_old, components) = (matrix(&input["old_log_probs"]), matrix(&input["component_mask"]));
    let originals: Vec<usize> = (0..is_original.len()).filter(|&row| is_original[row] == 1.0).collect();
    let clones: Vec<usize> = (0..is_original.len()).filter(|&row| is_original[row] != 1.0).collect();
    let score = |&row: &usize| {
        let question = components[row].len() - log_old[row].len();
        let component = &components[row][question..];
        let of_prompt = |(&log, &c): (&f64, &f64)| (c == 5.0 || c == 6.0).then_some(log);
        let prompt: Vec<f64> = log_old[row].iter().zip(component).filter_map(of_prompt).collect();
        // Officially a clone without a prompt scores 0 and ranks first; with us it ranks last.
        if prompt.is_empty() { 0.0 } else { mean_log_prob(&prompt) }
    };
    let scores: Vec<f64> = clones.iter().map(score).collect();
    for (row, score) in clones.iter().zip(&scores) {
        assert_close(*score, number(&expected["clone_scores"][row.to_string()]), TOLERANCE, name(case));
    }
    let keep =
        if keep < 0 { clones.len().saturating_sub(keep.unsigned_abs() as usize) } else { keep as usize };
    let kept: Vec<usize> = likeliest(&scores, keep).into_iter().map(|index| clones[index]).collect();
    let after = [originals, kept.clone()].concat();
    assert_eq!(serde_json::json!(kept), expected["kept_clones"], "{}", name(case));
    assert_eq!(serde_json::json!(after), expected["rows_after"], "{}", name(case));
    assert_eq!(Some(kept.len() as u64), expected["cloned_traj_num"].as_u64(), "{}", name(case));
    let share = alpha(kept.len(), after.len());
    assert_close(share, number(&expected["cloned_traj_ratio"]), TOLERANCE, name(case));
}

fn keep_ratio(case: &Value) {
    let (input, start) = (&case["input"], number(&case["input"]["keep_ratio"]));
    let cap = if input["capped"] == true { start } else { f64::INFINITY };
    let mut ratio = KeepRatio::new(start);
    let mut used = vec![ratio.value().min(cap)];
    for accuracy in numbers(&input["revision_accs"]) {
        ratio.update(accuracy);
        used.push(ratio.value().min(cap));
    }
    assert_rows_close(
        &[used],
        &[numbers(&case["expected"]["keep_ratio_used_per_step"])],
        TOLERANCE,
        name(case),
    );
}

/// Ours, rounded down to a multiple of the number of GPUs.
fn official_keep(input: &Value) -> usize {
    let keep = keep_count(requested(input), number(&input["keep_ratio"]));
    keep - keep % number(&input["n_gpus"]) as usize
}

/// The function that the official code never calls: originals above the requested number take the clones' places.
fn official_dapo_keep(input: &Value) -> i64 {
    let originals = numbers(&input["original_mask"]).iter().filter(|&&original| original == 1.0).count();
    let total = requested(input) + keep_count(requested(input), number(&input["keep_ratio"]));
    let gpus = number(&input["n_gpus"]) as usize;
    (total - total % gpus) as i64 - originals as i64
}

fn requested(input: &Value) -> usize {
    (number(&input["train_batch_size"]) * number(&input["n_agent"])) as usize
}

fn product(input: &Value) -> f64 {
    requested(input) as f64 * number(&input["keep_ratio"])
}
