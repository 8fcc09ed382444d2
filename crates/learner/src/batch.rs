//! The transcripts that enter a step's loss, with everything the loss needs of them, and how they are split.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rex_grpo::{
    Behaviour, Correction, Probe, ProbeDensity, PromptTrie, RatioLevel, log_failure_rate, statistics,
};
use rex_rollout::Author;
use rex_sampler::{Origin, Rollout, probe_density};
use std::collections::BTreeMap;

/// One transcript of the loss, unpadded.
#[derive(Debug, Clone)]
pub struct Row {
    pub ids: Vec<u32>,
    pub authors: Vec<Author>,
    /// Tokens of the policy and of the probe policy; never the first token, which nothing predicts.
    pub loss_mask: Vec<bool>,
    /// `log π_old`, as recorded while sampling.
    pub log_old: Vec<f64>,
    /// `log π_mix` (METHOD §4).
    pub behaviour: Vec<f64>,
    pub advantage: f64,
    /// Its question.
    pub group: usize,
}

/// The kept transcripts of a step.
#[derive(Debug, Clone)]
pub struct Batch {
    pub rows: Vec<Row>,
    /// Whether the ratio compares tokens or whole transcripts.
    pub level: RatioLevel,
    /// Share of probes.
    pub alpha: f64,
}

/// How the probe policy's part in the step is accounted for.
#[derive(Debug, Clone, Copy)]
pub struct Correcting<'a> {
    pub correction: Correction,
    pub density: ProbeDensity,
    pub trie: &'a PromptTrie,
    /// Share of the step's originals that failed (`z`).
    pub failed: usize,
    pub originals: usize,
}

impl Batch {
    /// Assembles the kept rollouts of a step with their advantages.
    pub fn new(kept: &[&Rollout], advantages: &[f64], correcting: Correcting<'_>) -> Self {
        let log_z = log_failure_rate(correcting.failed, correcting.originals);
        let mut rows: Vec<Row> =
            kept.iter().zip(advantages).map(|(rollout, &a)| Row::new(rollout, a)).collect();
        let Correcting { trie, density, .. } = correcting;
        let probes: Vec<Option<Probe>> =
            kept.iter().map(|rollout| probe_density(&rollout.episode, trie, density, log_z)).collect();
        let alpha = statistics::alpha(probes.iter().flatten().count(), rows.len());
        let constants: Vec<rex_grpo::Row<'_>> = rows
            .iter()
            .zip(&probes)
            .map(|(row, probe)| rex_grpo::Row {
                log_old: &row.log_old,
                loss_mask: &row.loss_mask,
                probe: probe.as_ref(),
            })
            .collect();
        let Behaviour { log_probs, level } = correcting.correction.behaviour(&constants, alpha);
        for (row, behaviour) in rows.iter_mut().zip(log_probs) {
            row.behaviour = behaviour;
        }
        Self { rows, level, alpha }
    }

    /// Mini-batches of `questions` whole groups each (0: one of all), in an order named by (seed, step, epoch), so that
    /// probes never gather in the last ones.
    pub fn mini_batches(&self, questions: usize, seed: u64, step: usize, epoch: usize) -> Vec<Vec<&Row>> {
        let mut groups: BTreeMap<usize, Vec<&Row>> = BTreeMap::new();
        for row in &self.rows {
            groups.entry(row.group).or_default().push(row);
        }
        let mut groups: Vec<Vec<&Row>> = groups.into_values().collect();
        if questions == 0 || questions >= groups.len() {
            return vec![groups.concat()];
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream((step as u64) << 16 | epoch as u64);
        groups.shuffle(&mut random);
        groups.chunks(questions).map(<[_]>::concat).collect()
    }
}

impl Row {
    fn new(rollout: &Rollout, advantage: f64) -> Self {
        let transcript = rollout.episode.transcript();
        let log_old: Vec<f64> = transcript.log_probs().iter().map(|&p| p.into()).collect();
        Self {
            ids: transcript.ids().to_vec(),
            authors: transcript.authors().to_vec(),
            loss_mask: transcript.authors().iter().map(|author| author.in_loss()).collect(),
            behaviour: log_old.clone(),
            log_old,
            advantage,
            group: rollout.task,
        }
    }
}

/// The score by which probes are filtered: mean `log π_old` over the exploration prompt.
pub fn probe_score(rollout: &Rollout) -> f64 {
    debug_assert_eq!(rollout.origin, Origin::Probe);
    let prompt = rollout.episode.branch().map(|branch| branch.exploration.clone()).unwrap_or_default();
    let log_old: Vec<f64> =
        rollout.episode.transcript().log_probs()[prompt].iter().map(|&p| p.into()).collect();
    rex_grpo::filter::mean_log_prob(&log_old)
}
