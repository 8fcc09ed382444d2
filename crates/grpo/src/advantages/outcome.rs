//! Advantages from one reward per transcript.

use super::{groups::members, whiten::whiten};
use serde::{Deserialize, Serialize};

/// How a reward becomes an advantage.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Advantage {
    /// `(r − mean)/(std + ε)` in the group, `std` with n−1 (GRPO, arXiv 2402.03300); without `std` Dr. GRPO
    /// (arXiv 2503.20783).
    Grpo { std: bool, epsilon: f64, singleton: Singleton },
    /// `r` minus the mean of the *other* rewards of the group; `r` itself alone (RLOO, arXiv 2402.14740).
    Rloo,
    /// `r` minus the mean of the group weighted by length; `r` itself alone (OPO, arXiv 2505.23585).
    Opo,
    /// `r`, or with `baseline` `r − mean` of the group, whitened over all trainable tokens of the step
    /// (REINFORCE++, arXiv 2501.03262).
    Reinforce { baseline: bool },
}

/// What becomes of a transcript that is alone in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Singleton {
    /// Mean 0 and standard deviation 1: its advantage is about its reward.
    #[default]
    Official,
    /// Advantage 0: it leaves the policy gradient, its place in the loss's denominators stays.
    Dropped,
}

impl Default for Advantage {
    fn default() -> Self {
        Self::Grpo { std: true, epsilon: 1e-6, singleton: Singleton::Official }
    }
}

impl Advantage {
    /// The advantage of each transcript of a step.
    ///
    /// `groups` names the question of each transcript (a probe has its parent's), `tokens` counts its trainable
    /// tokens.
    ///
    /// # Panics
    /// If the three slices differ in length.
    pub fn of(&self, rewards: &[f64], groups: &[usize], tokens: &[usize]) -> Vec<f64> {
        assert_eq!(rewards.len(), groups.len(), "one group id per reward");
        assert_eq!(rewards.len(), tokens.len(), "one token count per reward");
        match *self {
            Self::Grpo { std, epsilon, singleton } => {
                per_group(rewards, groups, |all, _| grpo(all, std, epsilon, singleton))
            }
            Self::Rloo => per_group(rewards, groups, |all, _| rloo(all)),
            Self::Opo => per_group(rewards, groups, |all, rows| opo(all, &pick(&lengths(tokens), rows))),
            Self::Reinforce { baseline: false } => whiten(rewards, &lengths(tokens)),
            Self::Reinforce { baseline: true } => {
                let centred = per_group(rewards, groups, |all, _| minus(all, baseline(all)));
                whiten(&centred, &lengths(tokens))
            }
        }
    }
}

/// Only the best of the group counts, by how far it beats the second: `(max − second)/(std + 1e-6)`, 0 for the
/// others (pass@k training, arXiv 2503.19595). `None` if a group has fewer than two members.
pub fn pass_at_k(rewards: &[f64], groups: &[usize], std: bool) -> Option<Vec<f64>> {
    let comparable = members(groups).iter().all(|rows| rows.len() >= 2);
    comparable.then(|| per_group(rewards, groups, |all, _| best_only(all, std)))
}

fn grpo(rewards: &[f64], std: bool, epsilon: f64, singleton: Singleton) -> Vec<f64> {
    if rewards.len() == 1 && singleton == Singleton::Dropped {
        return vec![0.0];
    }
    let scale = if std { deviation(rewards) + epsilon } else { 1.0 };
    minus(rewards, baseline(rewards)).into_iter().map(|centred| centred / scale).collect()
}

fn rloo(rewards: &[f64]) -> Vec<f64> {
    let n = rewards.len() as f64;
    let factor = if n > 1.0 { n / (n - 1.0) } else { 1.0 };
    minus(rewards, baseline(rewards)).into_iter().map(|centred| centred * factor).collect()
}

fn opo(rewards: &[f64], lengths: &[f64]) -> Vec<f64> {
    let total: f64 = lengths.iter().sum();
    if rewards.len() == 1 || total == 0.0 {
        return rewards.to_vec();
    }
    minus(rewards, rewards.iter().zip(lengths).map(|(r, l)| r * l).sum::<f64>() / total)
}

fn best_only(rewards: &[f64], std: bool) -> Vec<f64> {
    let mut order: Vec<usize> = (0..rewards.len()).collect();
    order.sort_by(|&a, &b| rewards[b].total_cmp(&rewards[a]));
    let scale = if std { deviation(rewards) + 1e-6 } else { 1.0 };
    let mut advantages = vec![0.0; rewards.len()];
    advantages[order[0]] = (rewards[order[0]] - rewards[order[1]]) / scale;
    advantages
}

/// The mean of a group, 0 for a group of one, which has nothing to be compared with.
fn baseline(rewards: &[f64]) -> f64 {
    if rewards.len() == 1 { 0.0 } else { rewards.iter().sum::<f64>() / rewards.len() as f64 }
}

/// The standard deviation with n−1, 1 for a group of one.
fn deviation(rewards: &[f64]) -> f64 {
    if rewards.len() == 1 {
        return 1.0;
    }
    let squares: f64 = minus(rewards, baseline(rewards)).iter().map(|centred| centred * centred).sum();
    (squares / (rewards.len() as f64 - 1.0)).sqrt()
}

/// Applies `estimate` to the rewards (and row numbers) of each group and puts the results back in row order.
fn per_group(rewards: &[f64], groups: &[usize], estimate: impl Fn(&[f64], &[usize]) -> Vec<f64>) -> Vec<f64> {
    let mut advantages = vec![0.0; rewards.len()];
    for rows in members(groups) {
        for (&row, advantage) in rows.iter().zip(estimate(&pick(rewards, &rows), &rows)) {
            advantages[row] = advantage;
        }
    }
    advantages
}

fn pick(values: &[f64], rows: &[usize]) -> Vec<f64> {
    rows.iter().map(|&row| values[row]).collect()
}

fn minus(values: &[f64], shift: f64) -> Vec<f64> {
    values.iter().map(|value| value - shift).collect()
}

fn lengths(tokens: &[usize]) -> Vec<f64> {
    tokens.iter().map(|&count| count as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(advantage: Advantage, rewards: &[f64], groups: &[usize], tokens: &[usize], expected: &[f64]) {
        let found = advantage.of(rewards, groups, tokens);
        for (a, b) in found.iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{advantage:?}: {found:?}, expected {expected:?}");
        }
        assert_eq!(found.len(), expected.len());
    }

    #[test]
    fn by_hand() {
        let dr_grpo = Advantage::Grpo { std: false, epsilon: 1e-6, singleton: Singleton::Official };
        let dropped = Advantage::Grpo { std: true, epsilon: 1e-6, singleton: Singleton::Dropped };
        let half = std::f64::consts::FRAC_1_SQRT_2;
        check(Advantage::default(), &[1.0, 0.0, 1.0], &[0, 0, 1], &[1, 1, 1], &[half, -half, 1.0]);
        check(dropped, &[1.0, 0.0, 1.0], &[0, 0, 1], &[1, 1, 1], &[half, -half, 0.0]);
        check(dr_grpo, &[1.0, 0.0, 0.5], &[4, 4, 4], &[9, 1, 1], &[0.5, -0.5, 0.0]);
        check(Advantage::Rloo, &[1.0, 0.0, 0.5], &[4, 4, 4], &[9, 1, 1], &[0.75, -0.75, 0.0]);
        check(Advantage::Opo, &[1.0, 0.0], &[0, 0], &[3, 1], &[0.25, -0.75]);
        let plain = Advantage::Reinforce { baseline: false };
        check(plain, &[1.0, 0.0], &[0, 1], &[1, 1], &[half, -half]);
    }

    #[test]
    fn no_transcripts_no_advantages() {
        for advantage in [Advantage::default(), Advantage::Rloo, Advantage::Reinforce { baseline: true }] {
            check(advantage, &[], &[], &[], &[]);
        }
    }
}
