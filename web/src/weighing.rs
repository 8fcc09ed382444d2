//! What the policy correction makes of the last question's transcripts (METHOD §3, §4, §7).

use rex_grpo::mixture::log_mixture;
use rex_grpo::{Advantage, ProbeDensity, PromptTrie, log_failure_rate, statistics};
use rex_sampler::{Origin, Rollout, probe_density};
use serde::Serialize;

/// A group of transcripts under a mixture with a share `alpha` of probes.
#[derive(Serialize)]
pub(crate) struct Weighing {
    alpha: f64,
    /// `z`, the share of originals that failed.
    failure_rate: f64,
    originals: usize,
    failed: usize,
    probes: usize,
    rescued: usize,
    transcripts: Vec<Weighed>,
}

#[derive(Serialize)]
struct Weighed {
    sample: usize,
    probe: bool,
    reward: f64,
    /// Against the others of the group, probes among them.
    advantage: f64,
    /// `log μ` of each token behind the prompt; absent where the probe policy cannot draw it.
    log_mu: Vec<Option<f64>>,
    log_mix: Vec<f64>,
    /// `π_old/π_mix`: the ratio of the loss before the first update.
    ratio: Vec<f64>,
}

impl Weighing {
    /// `alpha`: the share of probes; their share of these transcripts when absent.
    pub(crate) fn new(rollouts: &[Rollout], trie: &PromptTrie, alpha: Option<f64>) -> Self {
        let is_probe = |rollout: &&Rollout| rollout.origin == Origin::Probe;
        let originals = rollouts.iter().filter(|r| !is_probe(r)).count();
        let failed = rollouts.iter().filter(|r| !is_probe(r) && !r.scores.is_correct()).count();
        let probes = rollouts.iter().filter(is_probe).count();
        let rescued = rollouts.iter().filter(|r| is_probe(r) && r.scores.is_correct()).count();
        let alpha = alpha.unwrap_or(statistics::alpha(probes, rollouts.len()));
        let log_z = log_failure_rate(failed, originals);

        let rewards: Vec<f64> = rollouts.iter().map(|rollout| rollout.scores.reward(0.0)).collect();
        let groups = vec![0; rollouts.len()];
        let tokens: Vec<usize> = rollouts.iter().map(Rollout::written).collect();
        let advantages = Advantage::default().of(&rewards, &groups, &tokens);

        let weighed = |((rollout, advantage), reward): ((&Rollout, f64), f64)| {
            let transcript = rollout.episode.transcript();
            let log_old: Vec<f64> = transcript.log_probs().iter().map(|&log| log.into()).collect();
            let probe = probe_density(&rollout.episode, trie, ProbeDensity::Fine, log_z);
            let impossible = || vec![f64::NEG_INFINITY; log_old.len()];
            let log_mu = probe.as_ref().map_or_else(impossible, |probe| probe.log_mu(&log_old));
            let log_mix = log_mixture(&log_old, &log_mu, alpha);
            let prompt = transcript.prompt_len();
            let ratio = log_old.iter().zip(&log_mix).map(|(old, mix)| (old - mix).exp());
            let possible = |&log: &f64| log.is_finite().then_some(log);
            Weighed {
                sample: rollout.sample,
                probe: rollout.origin == Origin::Probe,
                reward,
                advantage,
                ratio: ratio.skip(prompt).collect(),
                log_mu: log_mu[prompt..].iter().map(possible).collect(),
                log_mix: log_mix[prompt..].to_vec(),
            }
        };
        Self {
            alpha,
            failure_rate: log_z.exp(),
            originals,
            failed,
            probes,
            rescued,
            transcripts: rollouts.iter().zip(advantages).zip(rewards).map(weighed).collect(),
        }
    }
}
