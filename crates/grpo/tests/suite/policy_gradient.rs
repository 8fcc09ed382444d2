//! A problem small enough to enumerate: which correction gives the true policy gradient?
//!
//! A transcript is `u answer` or `u P x answer`, with a thought `u`, and a pool of prompts `P x`. Direct answers after
//! thought 0 are right, after thought 1 wrong, so a probe is `1` · `P x` · an answer. The old policy's probabilities
//! are simple fractions: 80 transcripts (64 originals, and one probe for each of the 16 failures) hold every
//! transcript exactly as often as the mixture draws it. The mean over this one step *is* the expectation.

use crate::support::*;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_grpo::{
    Aggregation, BatchTotals, Behaviour, Correction, Kl, PolicyInput, PolicyLoss, Probe, ProbeDensity,
    PromptTrie, Row, statistics::effective_sample_size,
};

const TOKENS: usize = 3;
/// The first token of every exploration prompt.
const P: usize = 2;
/// Contexts: the start, after each thought, after each `u P`, after each `u P x`.
const CONTEXTS: usize = 1 + 2 + 2 + 4;
const IMPOSSIBLE: f64 = -1e9;
const MASK: [bool; 4] = [true; 4];

#[derive(Clone, Debug, PartialEq)]
struct Transcript {
    tokens: Vec<usize>,
    reward: f64,
}

impl Transcript {
    fn new(tokens: &[usize]) -> Self {
        let reward = match *tokens {
            [thought, _] => f64::from(thought == 0),
            [_, _, x, answer] => {
                if answer == x {
                    1.0
                } else {
                    0.25
                }
            }
            _ => unreachable!(),
        };
        Self { tokens: tokens.to_vec(), reward }
    }

    /// The context in which each token is drawn.
    fn contexts(&self) -> Vec<usize> {
        let t = &self.tokens;
        let all = [0, 1 + t[0], 3 + t[0], 5 + 2 * t[0] + t.get(2).unwrap_or(&0)];
        all[..t.len()].to_vec()
    }

    /// Could the probe policy have drawn it?
    fn is_reachable_by_probing(&self) -> bool {
        self.tokens[..2] == [1, P]
    }
}

fn all_transcripts() -> Vec<Transcript> {
    let direct = (0..2).flat_map(|u| (0..2).map(move |a| vec![u, a]));
    let prompted = (0..8).map(|n| vec![n / 4, P, n / 2 % 2, n % 2]);
    direct.chain(prompted).map(|tokens| Transcript::new(&tokens)).collect()
}

/// The step: who is in it, and whether as a probe.
fn step() -> Vec<(Transcript, bool)> {
    let old = table(&old_logits());
    let pool = pool();
    let mut rows = Vec::new();
    for transcript in all_transcripts() {
        let probability = log_probs(&old, &transcript).iter().sum::<f64>().exp();
        rows.extend(vec![(transcript.clone(), false); (64.0 * probability).round() as usize]);
        if transcript.is_reachable_by_probing() {
            let prompt = pool.log_density(&prompt_of(&transcript), ProbeDensity::Fine).unwrap();
            let answer = log_probs(&old, &transcript)[3];
            let probability = (prompt.iter().sum::<f64>() + answer).exp();
            rows.extend(vec![(transcript, true); (16.0 * probability).round() as usize]);
        }
    }
    assert_eq!(rows.len(), 80);
    rows
}

/// Three prompts `P 0` and one `P 1`.
fn pool() -> PromptTrie {
    let (p, zero, one) = (P as u32, 0, 1);
    PromptTrie::new([[p, zero], [p, zero], [p, zero], [p, one]])
}

fn prompt_of(transcript: &Transcript) -> Vec<u32> {
    transcript.tokens[1..3].iter().map(|&token| token as u32).collect()
}

fn old_logits() -> Vec<f64> {
    let rows: [[f64; TOKENS]; CONTEXTS] = [
        [0.5, 0.5, 0.0],
        [0.25, 0.25, 0.5],
        [0.25, 0.25, 0.5],
        [0.5, 0.5, 0.0],
        [0.5, 0.5, 0.0],
        [0.25, 0.75, 0.0],
        [0.25, 0.75, 0.0],
        [0.25, 0.75, 0.0],
        [0.25, 0.75, 0.0],
    ];
    rows.concat().iter().map(|p| if *p > 0.0 { p.ln() } else { IMPOSSIBLE }).collect()
}

/// A policy some way from the old one.
fn moved_logits(distance: f64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    old_logits().into_iter().map(|logit| logit + distance * random.random_range(-1.0..1.0)).collect()
}

fn parameters(logits: &[f64]) -> Tensor<2> {
    tensor(&logits.chunks(TOKENS).map(<[f64]>::to_vec).collect::<Vec<_>>())
}

/// `log π` per context and token.
fn table(logits: &[f64]) -> Vec<Vec<f64>> {
    rows_of(log_softmax(parameters(logits), 1))
}

fn log_probs(table: &[Vec<f64>], transcript: &Transcript) -> Vec<f64> {
    transcript.contexts().iter().zip(&transcript.tokens).map(|(&c, &t)| table[c][t]).collect()
}

/// `log π_θ` `[rows, 4]`, differentiable in the logits; short transcripts are padded with whatever.
fn forward(logits: Tensor<2>, transcripts: &[Transcript]) -> Tensor<2> {
    let cell = |t: &Transcript, at: usize| t.contexts().get(at).map_or(0, |c| c * TOKENS + t.tokens[at]);
    let cells: Vec<i64> = transcripts.iter().flat_map(|t| (0..4).map(move |at| cell(t, at) as i64)).collect();
    let cells: Tensor<1, Int> = Tensor::from_data(TensorData::from(&cells[..]), &device());
    log_softmax(logits, 1).reshape([CONTEXTS * TOKENS]).select(0, cells).reshape([transcripts.len(), 4])
}

fn length_mask(transcripts: &[Transcript]) -> Vec<Vec<f64>> {
    transcripts.iter().map(|t| (0..4).map(|at| f64::from(at < t.tokens.len())).collect()).collect()
}

/// `−∇E[reward]` under the policy itself, by enumeration.
fn true_gradient(logits: &[f64]) -> Vec<f64> {
    let all = all_transcripts();
    let (_, gradient) = with_gradient(parameters(logits), |logits| {
        let outside = mask(&length_mask(&all)).bool_not();
        let probability = forward(logits, &all).mask_fill(outside, 0.0).sum_dim(1).exp();
        -(probability * tensor(&all.iter().map(|t| vec![t.reward]).collect::<Vec<_>>())).sum()
    });
    gradient.concat()
}

/// How a row of the step is told apart.
#[derive(Clone, Copy, PartialEq)]
enum Told {
    /// By who could have drawn it, as the balance heuristic asks.
    ByReach,
    /// By who did.
    ByOrigin,
}

fn behaviour(rows: &[(Transcript, bool)], correction: Correction, told: Told) -> Behaviour {
    let old = table(&old_logits());
    let log_old: Vec<Vec<f64>> = rows.iter().map(|(transcript, _)| log_probs(&old, transcript)).collect();
    let pool = pool();
    let probe = |(transcript, is_probe): &(Transcript, bool)| {
        let counts = if told == Told::ByReach { transcript.is_reachable_by_probing() } else { *is_probe };
        // All failures have the prefix `1`: its density is 1 = π_old(1)/z with z = 1/2. The failure rate is 1/4, but
        // of the originals that start with 1 only half fail; METHOD's π_old/z takes the prefix to decide.
        let density = || pool.log_density(&prompt_of(transcript), ProbeDensity::Fine).unwrap();
        counts.then(|| Probe::new(1..3, density(), &MASK, 0.5_f64.ln()))
    };
    let probes: Vec<Option<Probe>> = rows.iter().map(probe).collect();
    let row = |r: usize| Row {
        log_old: &log_old[r],
        loss_mask: &MASK[..log_old[r].len()],
        probe: probes[r].as_ref(),
    };
    let rows: Vec<Row<'_>> = (0..rows.len()).map(row).collect();
    correction.behaviour(&rows, 16.0 / 80.0)
}

/// The gradient in the logits of the unclipped policy loss over `rows`, a part of the step with this behaviour.
fn gradient(logits: &[f64], rows: &[(Transcript, bool)], behaviour: &Behaviour) -> Vec<f64> {
    let transcripts: Vec<Transcript> = rows.iter().map(|(transcript, _)| transcript.clone()).collect();
    let padded = behaviour.log_probs.iter().map(|row| [&row[..], &vec![0.0; 4 - row.len()]].concat());
    let lengths = length_mask(&transcripts);
    let totals = BatchTotals { rows: rows.len(), tokens: 0, length: 0 };
    let open = PolicyLoss::Clipped { clip_ratio_low: 1.0, clip_ratio_high: f64::INFINITY, dual_clip: None };
    let (_, gradient) = with_gradient(parameters(logits), |logits| {
        let term = open.term(PolicyInput {
            log_probs: forward(logits, &transcripts),
            behaviour: tensor(&padded.collect::<Vec<_>>()),
            level: behaviour.level,
            advantages: tensor(&transcripts.iter().map(|t| vec![t.reward]).collect::<Vec<_>>()),
            mask: mask(&lengths),
        });
        Aggregation::SeqMeanTokenSum.sum(term.loss, mask(&lengths), &totals)
    });
    gradient.concat()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn norm(a: &[f64]) -> f64 {
    distance(a, &vec![0.0; a.len()])
}

/// Relative error of the whole step's gradient.
fn error(logits: &[f64], correction: Correction, told: Told) -> f64 {
    let rows = step();
    let truth = true_gradient(logits);
    distance(&gradient(logits, &rows, &behaviour(&rows, correction, told)), &truth) / norm(&truth)
}

#[test]
fn trajectory_is_exact_at_the_old_policy_and_away_from_it() {
    for logits in [old_logits(), moved_logits(0.6)] {
        let found = error(&logits, Correction::Trajectory, Told::ByReach);
        assert!(found < 1e-9, "trajectory: {found}");
    }
}

#[test]
fn the_others_are_not() {
    for logits in [old_logits(), moved_logits(0.6)] {
        for (correction, told) in [
            (Correction::None, Told::ByOrigin),
            (Correction::Token, Told::ByOrigin),
            (Correction::Token, Told::ByReach),
            // Half of this policy's transcripts after thought 1 hold a prompt: calling those originals counts twice.
            (Correction::Trajectory, Told::ByOrigin),
        ] {
            let found = error(&logits, correction, told);
            println!("{correction:?}: relative error {found:.3}");
            assert!(found > 0.05, "{correction:?}: {found}");
        }
    }
}

/// The price: the weight of a whole transcript is a product, so the further the policy moves the fewer samples the step
/// is worth, and the more single rows scatter. (Next to the old policy the exact weights scatter *less* than the
/// per-token ones, which are wrong there too.)
#[test]
fn trajectory_has_the_higher_variance() {
    let rows = step();
    let scatter = |logits: &[f64], correction| {
        let whole = behaviour(&rows, correction, Told::ByReach);
        let mean = gradient(logits, &rows, &whole);
        let of_row = |row: usize| {
            let log_probs = vec![whole.log_probs[row].clone()];
            gradient(logits, &rows[row..=row], &Behaviour { log_probs, level: whole.level })
        };
        let squares = (0..rows.len()).map(|row| distance(&of_row(row), &mean).powi(2));
        squares.sum::<f64>() / rows.len() as f64
    };
    let worth = |logits: &[f64]| {
        let (current, whole) = (table(logits), behaviour(&rows, Correction::Trajectory, Told::ByReach));
        let weight = |((transcript, _), log_mix): (&(Transcript, bool), &Vec<f64>)| {
            (log_probs(&current, transcript).iter().sum::<f64>() - log_mix.iter().sum::<f64>()).exp()
        };
        effective_sample_size(rows.iter().zip(&whole.log_probs).map(weight))
    };
    let worths = [0.0, 0.6, 1.2, 1.8, 2.4].map(|moved| worth(&moved_logits(moved)));
    println!("80 rows are worth {worths:.1?} as the policy moves");
    assert!(worths.is_sorted_by(|near, far| near > far) && worths[0] < 80.0 && worths[4] < 40.0);

    let [trajectory, token] =
        [Correction::Trajectory, Correction::Token].map(|c| scatter(&moved_logits(1.8), c));
    println!("variance of a row far away: trajectory {trajectory:.3}, token {token:.3}");
    assert!(trajectory > token);
}

/// The probability of the only transcript with a positive advantage goes up, that of one with a negative down.
#[test]
fn a_step_moves_probabilities_in_the_direction_of_the_advantage() {
    for correction in [Correction::Token, Correction::Trajectory, Correction::None] {
        let rows = step();
        let whole = behaviour(&rows, correction, Told::ByOrigin);
        for row in [0, rows.len() - 1] {
            for advantage in [1.0, -1.0] {
                let (mut transcript, is_probe) = rows[row].clone();
                transcript.reward = advantage;
                let one = [(transcript.clone(), is_probe)];
                let of_one = Behaviour { log_probs: vec![whole.log_probs[row].clone()], level: whole.level };
                let descent = gradient(&old_logits(), &one, &of_one);
                let after: Vec<f64> = old_logits().iter().zip(descent).map(|(x, g)| x - 0.1 * g).collect();
                let total = |logits: &[f64]| log_probs(&table(logits), &transcript).iter().sum::<f64>();
                let change = total(&after) - total(&old_logits());
                assert!(
                    change * advantage > 0.0,
                    "{correction:?}, row {row}, advantage {advantage}: {change}"
                );
            }
        }
    }
}

/// Descending the KL term brings every transcript's probability nearer to the reference's, on average.
#[test]
fn kl_pulls_towards_the_reference() {
    let (reference, all) = (table(&old_logits()), all_transcripts());
    let exact_kl = |logits: &[f64]| {
        let current = table(logits);
        let of_one = |transcript: &Transcript| {
            let (log, log_ref) = (log_probs(&current, transcript), log_probs(&reference, transcript));
            log.iter().sum::<f64>().exp() * (log.iter().sum::<f64>() - log_ref.iter().sum::<f64>())
        };
        all.iter().map(of_one).sum::<f64>()
    };
    let lengths = length_mask(&all);
    let log_ref: Vec<Vec<f64>> =
        all.iter().map(|t| [log_probs(&reference, t), vec![0.0; 4 - t.tokens.len()]].concat()).collect();
    let totals = BatchTotals { rows: all.len(), tokens: 0, length: 0 };
    for kl in [Kl::K2, Kl::K3, Kl::Abs] {
        let mut logits = moved_logits(0.6);
        let before = exact_kl(&logits);
        for _ in 0..50 {
            let (_, descent) = with_gradient(parameters(&logits), |logits| {
                let estimate = kl.estimate(forward(logits, &all), tensor(&log_ref));
                Aggregation::SeqMeanTokenSum.sum(estimate, mask(&lengths), &totals)
            });
            for (logit, step) in logits.iter_mut().zip(descent.concat()) {
                *logit -= 0.2 * step;
            }
        }
        let after = exact_kl(&logits);
        println!("{kl:?}: KL {before:.5} -> {after:.5}");
        assert!(after < 0.5 * before, "{kl:?}: {before} -> {after}");
    }
}
