//! The rules.

use super::series::Series;
use super::thresholds::*;
use crate::config::{Config, LossKind};
use crate::metrics::Metrics;
use rex_grpo::Correction;
use serde::Serialize;
use std::collections::BTreeSet;

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    EntropyCollapse,
    SearchCollapse,
    CorrectLessLikely,
    AlphaOverClip,
    NoGradient,
    Truncated,
    ProbesFail,
    SkippedUpdates,
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Warning {
    pub kind: Kind,
    /// The step at which it was first seen.
    pub step: usize,
    /// What was seen.
    pub message: String,
    /// What to try, by configuration keys.
    pub advice: &'static str,
}

/// The warnings of a run, from its whole history.
pub fn of(history: &[Metrics], config: &Config) -> Vec<Warning> {
    let mut watch = Watch::new(config);
    history.iter().flat_map(|metrics| watch.see(metrics)).collect()
}

/// The `α` over which every original with a positive advantage is clipped: originals start at the ratio `1/(1−α)` (METHOD
/// §4), which passes `1+ε` at `α = ε/(1+ε)`. None where the loss does not clip or the correction is another.
pub fn alpha_bound(config: &Config) -> Option<f64> {
    let algorithm = &config.algorithm;
    let clips = matches!(algorithm.loss, LossKind::Clip | LossKind::Gspo);
    let high = algorithm.clip_ratio_high;
    (clips && algorithm.correction == Correction::Token).then_some(high / (1.0 + high))
}

/// Sees a run's numbers go by and warns of each thing once. It keeps a few numbers, not the history.
#[derive(Debug)]
pub struct Watch {
    /// [`alpha_bound`].
    alpha_bound: Option<f64>,
    /// Where the probes' moving average started.
    keep_ratio: f64,
    entropy: Series,
    searches: Series,
    em: Series,
    correct: Series,
    truncated: Series,
    /// Steps without a gradient up to now.
    flat: usize,
    warned: BTreeSet<Kind>,
}

impl Watch {
    pub fn new(config: &Config) -> Self {
        Self {
            alpha_bound: alpha_bound(config),
            keep_ratio: config.probe.keep_ratio,
            entropy: Series::default(),
            searches: Series::default(),
            em: Series::default(),
            correct: Series::default(),
            truncated: Series::default(),
            flat: 0,
            warned: BTreeSet::new(),
        }
    }

    /// The warnings that begin with these numbers.
    pub fn see(&mut self, metrics: &Metrics) -> Vec<Warning> {
        self.entropy.push(metrics.get("actor/entropy"));
        self.searches.push(metrics.get("rollout/searches"));
        self.em.push(metrics.get("rex/em"));
        self.correct.push(metrics.get("rex/correct_log_prob"));
        self.truncated.push(metrics.get("rollout/truncated"));
        if let (Some(max), Some(min)) =
            (metrics.get("critic/advantages/max"), metrics.get("critic/advantages/min"))
        {
            let is_flat = max.abs().max(min.abs()) < FLAT_ADVANTAGE;
            self.flat = if is_flat { self.flat + 1 } else { 0 };
        }
        let found = [
            self.entropy_collapse(),
            self.search_collapse(),
            self.correct_less_likely(),
            self.alpha_over_clip(metrics),
            self.no_gradient(),
            self.cut_off(),
            self.probes_fail(metrics),
            skipped_updates(metrics),
        ];
        let new = found.into_iter().flatten().filter(|(kind, ..)| self.warned.insert(*kind));
        let step = metrics.step();
        new.map(|(kind, message, advice)| Warning { kind, step, message, advice }).collect()
    }

    fn entropy_collapse(&self) -> Found {
        let (start, now) = self.entropy.change()?;
        let message = format!(
            "the policy's entropy fell from {start:.3} to {now:.3} nats a token: its transcripts are all alike"
        );
        let advice = "raise algorithm.clip_ratio_high (DAPO: 0.28) or algorithm.kl_loss_coef, lower optimizer.lr, or \
                      sample at a higher rollout.temperature";
        (now < ENTROPY_SHARE * start && now < ENTROPY_NATS).then_some((
            Kind::EntropyCollapse,
            message,
            advice,
        ))
    }

    fn search_collapse(&self) -> Found {
        let (start, now) = self.searches.change()?;
        let (em_start, em_now) = self.em.change()?;
        let message = format!(
            "searches fell from {start:.2} to {now:.2} a question while exact match went from {em_start:.2} to \
             {em_now:.2}: the policy no longer uses the search engine"
        );
        let advice = "set algorithm.format_weight to 0 if the format score pays without a search, raise \
                      algorithm.kl_loss_coef, lower optimizer.lr, or start from a model that searches (rex sft)";
        let lost = start >= SEARCH_HABIT && now < SEARCH_SHARE * start && em_now < em_start + EM_GAIN;
        lost.then_some((Kind::SearchCollapse, message, advice))
    }

    fn correct_less_likely(&self) -> Found {
        let (start, now) = self.correct.change()?;
        let message = format!(
            "tokens of correct transcripts went from {:.2} to {:.2} in (geometric) mean probability: what is right becomes \
             less likely, too, which comes before a collapse (arXiv 2512.04220)",
            start.exp(),
            now.exp()
        );
        let advice = "lower optimizer.lr, raise algorithm.kl_loss_coef, or bound the loss of wrong transcripts by \
                      algorithm.clip_ratio_c (3.0 is usual)";
        (now < start - LIKELIHOOD_NATS).then_some((Kind::CorrectLessLikely, message, advice))
    }

    fn alpha_over_clip(&self, metrics: &Metrics) -> Found {
        let (alpha, bound) = (metrics.get("rex/alpha")?, self.alpha_bound?);
        let message = format!(
            "probes are {alpha:.3} of the step, more than ε/(1+ε) = {bound:.3}: originals start at the ratio \
             1/(1−α) = {:.3}, so the clip takes the gradient of every good one",
            1.0 / (1.0 - alpha)
        );
        let advice = "lower probe.max_fraction below the bound and keep probe.filter = \"likeliest\", draw more \
                      transcripts a step (one probe is always kept), or raise algorithm.clip_ratio_high";
        (alpha > bound).then_some((Kind::AlphaOverClip, message, advice))
    }

    fn no_gradient(&self) -> Found {
        let solved = self.em.latest().is_some_and(|em| em > 0.5);
        let (why, advice) = if solved {
            ("right", "these questions are learnt: train on harder ones, or stop here")
        } else {
            (
                "wrong",
                "replace such groups by algorithm.max_resamples, raise rollout.group_size or probe.probability, set \
                 algorithm.format_weight, or start from easier questions or a better model (rex sft)",
            )
        };
        let message = format!(
            "{FLAT_STEPS} steps in a row had nothing to learn from: in every group all transcripts earned the same, most \
             of them {why}"
        );
        (self.flat >= FLAT_STEPS).then_some((Kind::NoGradient, message, advice))
    }

    fn cut_off(&self) -> Found {
        let share = self.truncated.now()?;
        let message = format!(
            "{:.0} % of the transcripts are cut off by rollout.max_prompt_length and earn nothing",
            100.0 * share
        );
        let advice = "raise rollout.max_prompt_length, lower retriever.topk, rollout.max_obs_length or \
                      rollout.max_response_length, or charge for length by algorithm.overlong_buffer";
        (share > TRUNCATED_SHARE).then_some((Kind::Truncated, message, advice))
    }

    fn probes_fail(&self, metrics: &Metrics) -> Found {
        let ratio = metrics.get("rex/keep_ratio")?;
        let message = format!(
            "the moving average of the probes' accuracy fell from {:.3} to {ratio:.3}: exploration prompts rescue \
             nothing",
            self.keep_ratio
        );
        let advice = "write prompts that suit the model (probe.pool), probe transcripts without an answer, too \
                      (probe.on = \"any_failure\"), or save their cost by probe.probability = 0";
        (ratio < KEEP_RATIO_SHARE * self.keep_ratio).then_some((Kind::ProbesFail, message, advice))
    }
}

/// What a rule sees, if it sees something.
type Found = Option<(Kind, String, &'static str)>;

fn skipped_updates(metrics: &Metrics) -> Found {
    let skipped = metrics.get("rex/skipped_updates")?;
    let message = "a loss or gradient was not finite: the update was skipped, its batch is kept in rollouts/"
        .to_string();
    let advice = "look at the batch (STEP.skipped.jsonl), lower optimizer.lr or optimizer.grad_clip; the last good \
                  checkpoint is untouched";
    (skipped > 0.0).then_some((Kind::SkippedUpdates, message, advice))
}
