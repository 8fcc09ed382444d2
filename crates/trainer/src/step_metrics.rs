//! The numbers of a step; verl's names where it has one.

use crate::metrics::{Metrics, mean};
use crate::sampler::{Origin, Rollout};
use crate::step::Gathered;
use rex_grpo::{RatioSummary, TokenRatio, statistics};
use rex_learner::{Selected, Updates};
use rex_rollout::{Author, Outcome};

pub(crate) fn of(step: usize, gathered: &Gathered, selected: &Selected<'_>, updates: &Updates) -> Metrics {
    let Selected { kept, rewards, advantages, batch, keep_ratio } = selected;
    let mut metrics = Metrics::new(step);
    spread(&mut metrics, "critic/rewards", rewards);
    spread(&mut metrics, "critic/advantages", advantages);
    rollouts(&mut metrics, gathered);
    probes(&mut metrics, gathered, kept, batch.alpha);
    metrics.set("rex/keep_ratio", *keep_ratio);
    update(&mut metrics, updates);
    // The mean surprise of drawn tokens is an unbiased estimate of the policy's entropy.
    let drawn = batch.rows.iter().flat_map(|row| row.authors.iter().zip(&row.log_old));
    let surprise = drawn.filter(|(author, _)| **author == Author::Model).map(|(_, log_old)| -log_old);
    metrics.set("actor/entropy", mean(surprise));
    metrics
}

fn rollouts(metrics: &mut Metrics, gathered: &Gathered) {
    let originals: Vec<&Rollout> =
        gathered.rollouts.iter().filter(|rollout| rollout.origin == Origin::Original).collect();
    let of = |value: fn(&Rollout) -> f64| mean(originals.iter().map(|rollout| value(rollout)));
    metrics.set("rex/em", of(|r| r.scores.em));
    metrics.set("rollout/sub_em", of(|r| r.scores.sub_em));
    metrics.set("rollout/f1", of(|r| r.scores.f1));
    metrics.set("rollout/format", of(|r| r.scores.format));
    metrics.set("rollout/answered", of(|r| r.episode.answer().is_some() as u8 as f64));
    metrics.set("rollout/searches", of(|r| r.episode.searches() as f64));
    metrics.set("rollout/truncated", of(|r| (r.episode.outcome() == Some(&Outcome::Truncated)) as u8 as f64));
    metrics.set("rollout/tokens_prefilled", gathered.tokens_prefilled as f64);
    metrics.set("rollout/tokens_decoded", gathered.tokens_decoded as f64);
    // How sure the policy is of what it gets right: its fall announces a collapse (arXiv 2512.04220).
    let correct: Vec<&Rollout> = originals.iter().copied().filter(|r| r.scores.is_correct()).collect();
    if !correct.is_empty() {
        metrics.set("rex/correct_log_prob", mean(correct.iter().flat_map(|r| written_log_probs(r))));
    }
    let lengths: Vec<f64> = gathered.rollouts.iter().map(|rollout| rollout.written() as f64).collect();
    spread(metrics, "response_length", &lengths);
    let prompt = |rollout: &&Rollout| rollout.episode.transcript().prompt_len() as f64;
    metrics.set("prompt_length/mean", mean(originals.iter().map(prompt)));
}

/// `log π_old` of the tokens that the policy wrote.
fn written_log_probs(rollout: &Rollout) -> impl Iterator<Item = f64> {
    let transcript = rollout.episode.transcript();
    let tokens = transcript.authors().iter().zip(transcript.log_probs());
    tokens.filter(|(author, _)| **author == Author::Model).map(|(_, &log_old)| log_old.into())
}

fn probes(metrics: &mut Metrics, gathered: &Gathered, kept: &[&Rollout], alpha: f64) {
    let of = |origin: Origin| gathered.rollouts.iter().filter(move |rollout| rollout.origin == origin);
    let mut dead = vec![true; gathered.questions.len()];
    for rollout in of(Origin::Original).filter(|rollout| rollout.scores.is_correct()) {
        dead[rollout.task] = false;
    }
    let mut rescued = vec![false; dead.len()];
    for rollout in of(Origin::Probe).filter(|rollout| rollout.scores.is_correct()) {
        rescued[rollout.task] = dead[rollout.task];
    }
    let dead_ends = dead.iter().filter(|&&dead| dead).count() as f64;
    let share = |part: f64, whole: f64| if whole == 0.0 { 0.0 } else { part / whole };
    metrics.set("rex/alpha", alpha);
    metrics.set("rex/extra", of(Origin::Extra).count() as f64);
    metrics.set("rex/failure_rate", mean(of(Origin::Original).map(|rollout| 1.0 - rollout.scores.em)));
    metrics.set("rex/probes", of(Origin::Probe).count() as f64);
    metrics
        .set("rex/probes_kept", kept.iter().filter(|rollout| rollout.origin == Origin::Probe).count() as f64);
    metrics.set("rex/probe_em", mean(of(Origin::Probe).map(|rollout| rollout.scores.em)));
    metrics.set("rex/dead_end_rate", share(dead_ends, dead.len() as f64));
    metrics.set("rex/rescued", share(rescued.iter().filter(|&&rescued| rescued).count() as f64, dead_ends));
}

fn update(metrics: &mut Metrics, updates: &Updates) {
    metrics.set("actor/pg_loss", mean(updates.pg_loss.iter().copied()));
    metrics.set("actor/kl_loss", mean(updates.kl_loss.iter().copied()));
    metrics.set("actor/grad_norm", mean(updates.grad_norm.iter().copied()));
    metrics.set("rollout/logprob_diff_max", updates.log_prob_difference);
    let all = RatioSummary::of(&updates.tokens);
    metrics.set("actor/pg_clipfrac", all.clip_fraction);
    metrics.set("actor/ppo_kl", all.ppo_kl);
    let weights = updates.tokens.iter().map(|token| token.log_ratio.exp());
    let ess = statistics::effective_sample_size(weights);
    metrics.set("rex/ess", if updates.tokens.is_empty() { 0.0 } else { ess / updates.tokens.len() as f64 });
    for (author, name) in [(Author::Model, "model"), (Author::Probe, "probe")] {
        let of_author = |token: &TokenRatio<Author>| token.author == author;
        let tokens: Vec<_> = updates.tokens.iter().copied().filter(of_author).collect();
        if tokens.is_empty() {
            continue;
        }
        let summary = RatioSummary::of(&tokens);
        metrics.set(format!("rex/clipfrac/{name}"), summary.clip_fraction);
        for (percentile, value) in [
            ("p1", summary.p1),
            ("p5", summary.p5),
            ("p50", summary.p50),
            ("p95", summary.p95),
            ("p99", summary.p99),
        ] {
            metrics.set(format!("rex/ratio/{name}/{percentile}"), value);
        }
    }
}

/// `name/mean`, `name/max`, `name/min`.
fn spread(metrics: &mut Metrics, name: &str, values: &[f64]) {
    metrics.set(format!("{name}/mean"), mean(values.iter().copied()));
    metrics.set(format!("{name}/max"), values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    metrics.set(format!("{name}/min"), values.iter().copied().fold(f64::INFINITY, f64::min));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Bytes;
    use rex_rollout::{Codec, Episode, Protocol, Scores};

    /// An original that answers, every token at `log_prob`.
    fn original(answer: &str, log_prob: f32) -> Rollout {
        let mut episode = Episode::new(Bytes.encode("who? "));
        for id in Bytes.encode(&format!("<answer>{answer}</answer>")) {
            episode.push_token(id, log_prob, &Protocol::default(), &Bytes);
        }
        let scores = Scores::new(&episode.segments(&Bytes), &["Ann"]);
        Rollout { task: 0, sample: 0, origin: Origin::Original, episode, scores }
    }

    #[test]
    fn likelihood_of_what_is_right() {
        let of = |rollouts: Vec<Rollout>| {
            let gathered = Gathered { questions: vec![], rollouts, tokens_prefilled: 0, tokens_decoded: 0 };
            let mut metrics = Metrics::new(1);
            super::rollouts(&mut metrics, &gathered);
            metrics.get("rex/correct_log_prob")
        };
        assert_eq!(of(vec![original("Ann", -0.5), original("Bob", -2.0)]), Some(-0.5));
        assert_eq!(of(vec![original("Bob", -2.0)]), None, "absent where nothing is right");
    }
}
