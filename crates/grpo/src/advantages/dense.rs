//! Advantages from a reward per token. Rows are `[transcript][token]`; `mask` is 1 on response tokens, 0 elsewhere.
//!
//! Training here rewards whole transcripts; these are the remaining estimators of verl's `core_algos.py`.

use super::whiten::whiten;

/// Advantage and return (discounted sum of the rewards to come) of every token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenAdvantages {
    pub advantages: Vec<Vec<f64>>,
    pub returns: Vec<Vec<f64>>,
}

/// REINFORCE++: returns discounted by `gamma`, whitened over the mask. A masked token cuts the return.
pub fn reinforce_plus_plus(rewards: &[Vec<f64>], mask: &[Vec<f64>], gamma: f64) -> TokenAdvantages {
    let to_go = |rewards: &Vec<f64>, mask: &Vec<f64>| {
        let step = |t: usize, later: f64| rewards[t] + gamma * later * mask.get(t + 1).unwrap_or(&0.0);
        backwards(rewards.len(), step)
    };
    let returns: Vec<_> = rewards.iter().zip(mask).map(|(r, m)| to_go(r, m)).collect();
    TokenAdvantages { advantages: times(&whiten_rows(&returns, mask), mask), returns }
}

/// ReMax (arXiv 2310.10505): undiscounted return minus the reward of the greedy transcript, on masked tokens.
pub fn remax(rewards: &[Vec<f64>], mask: &[Vec<f64>], baselines: &[f64]) -> TokenAdvantages {
    let to_go = |rewards: &Vec<f64>| backwards(rewards.len(), |t, later| rewards[t] + later);
    let returns: Vec<_> = times(rewards, mask).iter().map(to_go).collect();
    let advantage = |((returns, mask), baseline): ((&Vec<f64>, &Vec<f64>), &f64)| {
        returns.iter().zip(mask).map(|(r, m)| r - baseline * m).collect()
    };
    TokenAdvantages { advantages: returns.iter().zip(mask).zip(baselines).map(advantage).collect(), returns }
}

/// Generalised advantage estimation (arXiv 1506.02438) on a critic's `values`, whitened over the mask.
pub fn gae(
    rewards: &[Vec<f64>],
    values: &[Vec<f64>],
    mask: &[Vec<f64>],
    gamma: f64,
    lambda: f64,
) -> TokenAdvantages {
    let estimate = |(rewards, values): (&Vec<f64>, &Vec<f64>)| {
        let error = |t: usize| rewards[t] + gamma * values.get(t + 1).unwrap_or(&0.0) - values[t];
        backwards(rewards.len(), |t, later| error(t) + gamma * lambda * later)
    };
    let raw: Vec<_> = rewards.iter().zip(values).map(estimate).collect();
    let add = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
    let returns = raw.iter().zip(values).map(add).collect();
    TokenAdvantages { advantages: whiten_rows(&raw, mask), returns }
}

/// `x[t] = step(t, x[t + 1])` from the last token to the first, starting from 0.
fn backwards(tokens: usize, step: impl Fn(usize, f64) -> f64) -> Vec<f64> {
    let mut values = vec![0.0; tokens];
    let mut later = 0.0;
    for t in (0..tokens).rev() {
        later = step(t, later);
        values[t] = later;
    }
    values
}

fn times(values: &[Vec<f64>], mask: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let row = |(values, mask): (&Vec<f64>, &Vec<f64>)| values.iter().zip(mask).map(|(x, m)| x * m).collect();
    values.iter().zip(mask).map(row).collect()
}

fn whiten_rows(values: &[Vec<f64>], mask: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut flat = whiten(&values.concat(), &mask.concat()).into_iter();
    values.iter().map(|row| flat.by_ref().take(row.len()).collect()).collect()
}
