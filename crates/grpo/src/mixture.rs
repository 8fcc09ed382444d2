//! Policy correction (REX-RAG, section 3.4): the step was drawn from a mixture, so the ratio is taken against it.

use crate::{Probe, RatioLevel};
use serde::{Deserialize, Serialize};

/// Which density stands below `π_θ` in the loss's ratio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Correction {
    /// `π_mix` token by token (the paper's): a good trade, but a transcript's ratios do not multiply up to an
    /// unbiased weight.
    #[default]
    Token,
    /// The balance heuristic on whole transcripts, `w = π_θ(o)/π_mix(o)`: unbiased, of high variance.
    Trajectory,
    /// `π_old`, as if the policy had drawn everything (the ablation without importance sampling).
    None,
}

/// One transcript of the step, unpadded.
///
/// Strictly, `probe` is for every transcript that the probe policy *could* have drawn, whoever did: the balance
/// heuristic of [`Correction::Trajectory`] is exact only so. Marking the actual probes counts the transcripts that
/// the policy would also have written by itself twice, as far as it writes pool prompts by itself (seldom).
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// `log π_old` of every token.
    pub log_old: &'a [f64],
    /// Which tokens are in the loss.
    pub loss_mask: &'a [bool],
    /// `None` for an original: its `μ` is 0, since the probe policy always inserts a prompt.
    pub probe: Option<&'a Probe>,
}

/// The density under which a step counts as drawn: constants of the loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// `log π_mix` of every token of every row, to be padded like the rows themselves.
    pub log_probs: Vec<Vec<f64>>,
    /// Whether the loss compares tokens or whole transcripts with it.
    pub level: RatioLevel,
}

impl Correction {
    /// The behaviour density of a whole step. `alpha` is its share of probes, [`crate::statistics::alpha`].
    ///
    /// * `Token`: `log π_mix,t = logaddexp(log(1−α) + log π_old,t, log α + log μ_t)`.
    /// * `Trajectory`: rows whose sum over the loss's tokens is `log π_mix(o) + log S`, where
    ///   `π_mix(o)/π_old(o) = 1−α` for an original and `(1−α) + (α/z)·Π_prompt μ_t/π_old,t` for a probe, and `S` is
    ///   the mean of `π_old/π_mix` over the step. With [`RatioLevel::Transcript`] the loss's ratio is then
    ///   `w/S`, `w = π_θ(o)/π_mix(o)`: self-normalised with the weights as they are before the first update
    ///   (`S` tends to 1, so the estimate is consistent for any `π_θ`), and differentiable in `π_θ`.
    /// * `None`: `log π_old`.
    ///
    /// With `alpha` = 0 there is nothing to correct and all three are `log π_old`, bit for bit, token by token.
    pub fn behaviour(self, rows: &[Row<'_>], alpha: f64) -> Behaviour {
        let old = |row: &Row<'_>| row.log_old.to_vec();
        let token = |row: &Row<'_>| log_mixture(row.log_old, &row.log_mu(), alpha);
        match self {
            Self::Token if alpha > 0.0 => Behaviour::per_token(rows.iter().map(token)),
            Self::Trajectory if alpha > 0.0 => trajectories(rows, alpha),
            _ => Behaviour::per_token(rows.iter().map(old)),
        }
    }
}

impl Row<'_> {
    fn log_mu(&self) -> Vec<f64> {
        let impossible = || vec![f64::NEG_INFINITY; self.log_old.len()];
        self.probe.map_or_else(impossible, |probe| probe.log_mu(self.log_old))
    }

    /// `log [π_mix(o)/π_old(o)]` of the whole transcript.
    fn log_mix_over_old(&self, alpha: f64) -> f64 {
        let of_mu = self.probe.map_or(f64::NEG_INFINITY, |probe| probe.log_mu_over_old(self.log_old));
        log_add_exp((-alpha).ln_1p(), alpha.ln() + of_mu)
    }
}

impl Behaviour {
    fn per_token(rows: impl Iterator<Item = Vec<f64>>) -> Self {
        Self { log_probs: rows.collect(), level: RatioLevel::Token }
    }
}

/// `logaddexp(log(1−α) + log π_old, log α + log μ)`, token by token; `log π_old` itself if `alpha` = 0.
pub fn log_mixture(log_old: &[f64], log_mu: &[f64], alpha: f64) -> Vec<f64> {
    if alpha == 0.0 {
        return log_old.to_vec();
    }
    let (of_old, of_mu) = ((-alpha).ln_1p(), alpha.ln());
    log_old.iter().zip(log_mu).map(|(old, mu)| log_add_exp(of_old + old, of_mu + mu)).collect()
}

fn trajectories(rows: &[Row<'_>], alpha: f64) -> Behaviour {
    let log_mix_over_old: Vec<f64> = rows.iter().map(|row| row.log_mix_over_old(alpha)).collect();
    let weights = log_mix_over_old.iter().map(|log| (-log).exp());
    let log_mean_weight = (weights.sum::<f64>() / rows.len() as f64).ln();
    let spread = |(row, log): (&Row<'_>, &f64)| {
        let tokens = row.loss_mask.iter().filter(|&&trainable| trainable).count().max(1);
        let shift = (log + log_mean_weight) / tokens as f64;
        row.log_old.iter().map(|old| old + shift).collect()
    };
    Behaviour {
        log_probs: rows.iter().zip(&log_mix_over_old).map(spread).collect(),
        level: RatioLevel::Transcript,
    }
}

/// `log(e^a + e^b)` without overflow; infinities of either sign are values.
fn log_add_exp(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high.is_infinite() { high } else { high + (low - high).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: [bool; 4] = [true, false, true, true];
    const LOG_OLD: [f64; 4] = [-0.5, 0.0, -700.0, -1.5];

    fn probe() -> Probe {
        Probe::new(2..3, vec![0.25_f64.ln()], &MASK, 0.5_f64.ln())
    }

    fn rows(probe: &Probe) -> [Row<'_>; 2] {
        [None, Some(probe)].map(|probe| Row { log_old: &LOG_OLD, loss_mask: &MASK, probe })
    }

    #[test]
    fn log_add_exp_of_anything() {
        let inf = f64::INFINITY;
        for (a, b, expected) in [
            (0.0, 0.0, 2.0_f64.ln()),
            (-2000.0, -2000.0, -2000.0 + 2.0_f64.ln()),
            (-1.0, -inf, -1.0),
            (-inf, -inf, -inf),
            (3.0, inf, inf),
        ] {
            assert_eq!(log_add_exp(a, b), expected);
            assert_eq!(log_add_exp(b, a), expected);
        }
    }

    #[test]
    fn tokens_by_hand() {
        let mixed = Correction::Token.behaviour(&rows(&probe()), 0.2);
        assert_eq!(mixed.level, RatioLevel::Token);
        for (log_mix, log_old) in mixed.log_probs[0].iter().zip(LOG_OLD) {
            assert!((log_mix - log_old - 0.8_f64.ln()).abs() < 1e-12, "an original loses log(1−α)");
        }
        // Prefix: j = 1 and z = 1/2 double μ. Prompt: π_old is e^-700, only μ = 1/4 is left. Continuation: as it was.
        let shifts = [(0.8 + 0.2 * 2.0_f64).ln() - 0.5, f64::NAN, (0.2 * 0.25_f64).ln(), -1.5];
        for t in [0, 2, 3] {
            assert!((mixed.log_probs[1][t] - shifts[t]).abs() < 1e-12, "{t}: {}", mixed.log_probs[1][t]);
        }
    }

    #[test]
    fn trajectories_by_hand() {
        let alpha = 0.2;
        let mixed = Correction::Trajectory.behaviour(&rows(&probe()), alpha);
        assert_eq!(mixed.level, RatioLevel::Transcript);
        // π_mix/π_old is 0.8 for the original; e^700 drowns the rest for the probe, whose weight is therefore 0.
        let log_mean_weight = (0.5 / 0.8_f64).ln();
        let over_old =
            |row: usize| [0, 2, 3].iter().map(|&t: &usize| mixed.log_probs[row][t] - LOG_OLD[t]).sum::<f64>();
        assert!((over_old(0) - (0.8_f64.ln() + log_mean_weight)).abs() < 1e-12);
        let log_mu_over_old = 2.0_f64.ln() + 0.25_f64.ln() + 700.0;
        assert!((over_old(1) - (alpha.ln() + log_mu_over_old + log_mean_weight)).abs() < 1e-9);
    }

    #[test]
    fn without_probes_every_correction_is_the_old_policy_bit_for_bit() {
        let probe = probe();
        for correction in [Correction::Token, Correction::Trajectory, Correction::None] {
            let same = correction.behaviour(&rows(&probe), 0.0);
            assert_eq!(same, Behaviour { log_probs: vec![LOG_OLD.to_vec(); 2], level: RatioLevel::Token });
        }
        assert_eq!(Correction::None.behaviour(&rows(&probe), 0.3).log_probs[1], LOG_OLD);
    }
}
