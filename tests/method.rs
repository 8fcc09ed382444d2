//! METHOD §8 end to end, on runs small enough for a test: what must not change a run, and what a run must report.

#[path = "fixtures/tiny.rs"]
mod tiny;

use burn::tensor::Device;
use rex_rollout::Author;
use rex_trainer::config::Config;
use rex_trainer::data::read_questions;
use rex_trainer::{Alone, Draw, Environment, Metrics, Observer, Probing, Task, Trainer};
use std::path::Path;
use std::rc::Rc;

/// Keeps the metrics of every step.
#[derive(Default)]
struct Kept(Vec<Metrics>);

impl Observer for Kept {
    fn step(&mut self, metrics: &Metrics) {
        self.0.push(metrics.clone());
    }
}

/// A run of the tiny model under `words`, in a run directory of its own.
fn run(folder: &Path, name: &str, words: &[&str]) -> Vec<Metrics> {
    let mut words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    words.push(format!("trainer.run_dir={}", folder.join(name).display()));
    words.push("trainer.test_freq=0".to_string());
    let config = Config::load(Some(&folder.join("config.toml")), &words).unwrap();
    let mut kept = Kept::default();
    let finished = Trainer::start(config, &burn::tensor::Device::flex(), Rc::new(Alone))
        .unwrap()
        .run(&mut kept)
        .unwrap();
    assert!(finished);
    kept.0
}

/// Every number but the timings.
fn numbers(metrics: &Metrics) -> Vec<(String, f64)> {
    let timed = |name: &str| name.starts_with("timing_s/") || name.starts_with("perf/");
    metrics.iter().filter(|(name, _)| !timed(name)).map(|(name, value)| (name.to_string(), value)).collect()
}

fn get(metrics: &Metrics, name: &str) -> f64 {
    metrics.get(name).unwrap_or_else(|| panic!("no {name}"))
}

/// §8.2: without probes REX is GRPO, bit for bit.
#[test]
fn rex_without_probes_is_grpo() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    let rex = run(folder.path(), "rex", &["probe.probability=0"]);
    let grpo = run(folder.path(), "grpo", &["algorithm.correction=none", "probe.probability=0"]);
    let rewards: f64 = rex.iter().map(|step| get(step, "critic/rewards/max")).sum();
    assert!(rewards > 0.0, "nothing was learnt from");
    for (rex, grpo) in rex.iter().zip(&grpo) {
        assert_eq!(numbers(rex), numbers(grpo));
    }
}

/// §8.3 and §8.4: how a step is split into passes moves neither loss nor gradient, and what sampling recorded is what
/// the training forward computes, for originals and probes.
#[test]
fn passes_do_not_matter_and_one_forward_serves_both() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    let steps = "trainer.total_steps=1";
    let whole = run(folder.path(), "whole", &[steps, "trainer.micro_batch_tokens=100000"]);
    let split = run(folder.path(), "split", &[steps, "trainer.micro_batch_tokens=160"]);
    assert!(get(&whole[0], "rex/probes_kept") > 0.0, "no probe takes part");
    for name in ["actor/pg_loss", "actor/kl_loss", "actor/grad_norm", "rex/ess", "actor/pg_clipfrac"] {
        let (a, b) = (get(&whole[0], name), get(&split[0], name));
        assert!((a - b).abs() <= 1e-6 * (1.0 + a.abs()), "{name}: {a} and {b}");
    }
    let difference = get(&whole[0], "rollout/logprob_diff_max");
    assert!(difference < 1e-4, "{difference}");
    println!("largest difference between sampling and training: {difference:e}");
}

/// Rows decoded at once do not change what is drawn.
#[test]
fn the_number_of_rows_does_not_matter() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    let steps = "trainer.total_steps=1";
    let many = run(folder.path(), "many", &[steps, "rollout.max_rows=64"]);
    let few = run(folder.path(), "few", &[steps, "rollout.max_rows=2"]);
    for name in ["response_length/mean", "rex/em", "rex/probes", "rollout/searches", "critic/rewards/mean"] {
        assert_eq!(get(&many[0], name), get(&few[0], name), "{name}");
    }
}

/// §2: the control draws the same originals and, where a probe would be drawn, a transcript from scratch.
#[test]
fn uniform_over_sampling_draws_as_many() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    let steps = "trainer.total_steps=1";
    let rex = run(folder.path(), "rex", &[steps]);
    let uniform = run(folder.path(), "uniform", &[steps, "probe.start=scratch"]);
    let few = run(folder.path(), "few", &[steps, "probe.start=scratch", "rollout.max_rows=2"]);
    assert!(get(&rex[0], "rex/probes") > 0.0, "nothing was probed");
    assert_eq!(get(&uniform[0], "rex/extra"), get(&rex[0], "rex/probes"));
    assert_eq!(get(&uniform[0], "rex/em"), get(&rex[0], "rex/em"));
    for name in ["rex/probes", "rex/alpha", "rex/rescued"] {
        assert_eq!(get(&uniform[0], name), 0.0, "{name}");
    }
    for name in ["rex/extra", "response_length/mean", "critic/rewards/mean"] {
        assert_eq!(get(&uniform[0], name), get(&few[0], name), "{name}");
    }
}

/// Every algorithm runs and stays finite.
/// Token in, token out: a probe goes on in its parent's cache row, so of its tokens only the exploration prompt is computed before
/// it draws (the token before is computed again, to score the prompt's first, and the prompt's last when it draws), and the passages
/// that it then reads.
#[test]
fn probes_cost_their_exploration_prompts() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let config = Config::load(Some(&config), &[]).unwrap();
    let model = rex_model::load(&config.model.path, &Device::flex()).unwrap();
    let environment = Environment::new(&config, &model).unwrap();
    let questions = read_questions(&config.data.train_files[0]).unwrap();
    let tasks: Vec<Task> = questions.iter().map(|question| environment.task(question).unwrap()).collect();
    let sample = |probability| {
        let probing = environment.probing().map(|probing| Probing { probability, ..probing });
        let sampling = rex_model::Sampling::Temperature(1.0);
        let draw = Draw { sampling, group_size: 4, probing, seed: 5, step: 1 };
        environment.sampler().sample(&model.decoder, &tasks, draw, &mut |_| {}).unwrap()
    };
    let (plain, probed) = (sample(0.0), sample(1.0));
    let probes = &probed.rollouts[plain.rollouts.len()..];
    assert!(probes.len() > 10, "{} probes", probes.len());
    let (mut prompts, mut read) = (0, 0);
    for probe in probes {
        let (branch, authors) = (probe.episode.branch().unwrap(), probe.episode.transcript().authors());
        prompts += branch.exploration.len() as u64;
        // What follows the last token that was drawn is never computed.
        let last = authors.iter().rposition(|&author| author == Author::Model).unwrap();
        let own = &authors[branch.exploration.end..last];
        read += own.iter().filter(|&&author| author != Author::Model).count() as u64;
    }
    assert_eq!(probed.tokens.prefilled - plain.tokens.prefilled, prompts + read);
    let drawn: usize = probes
        .iter()
        .map(|probe| {
            let start = probe.episode.branch().unwrap().exploration.end;
            let authors = &probe.episode.transcript().authors()[start..];
            authors.iter().filter(|&&author| author == Author::Model).count()
        })
        .sum();
    assert_eq!(probed.tokens.decoded - plain.tokens.decoded, drawn as u64);
    println!("{} probes: {prompts} tokens of exploration prompts, {read} of passages", probes.len());
}

#[test]
fn every_algorithm_runs() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    for name in ["rex", "grpo", "dapo", "dr_grpo", "rloo", "reinforce", "gspo", "cispo"] {
        let words =
            [&format!("algorithm.name={name}")[..], "trainer.total_steps=1", "algorithm.kl_loss_coef=0.01"];
        let steps = run(folder.path(), name, &words);
        assert!(get(&steps[0], "actor/grad_norm").is_finite(), "{name}");
        assert_eq!(get(&steps[0], "rex/skipped_updates"), 0.0, "{name}");
    }
    for words in [
        "algorithm.correction=trajectory",
        "algorithm.correction=none",
        "probe.filter=none",
        "probe.density=coarse",
        "probe.start=scratch",
        "algorithm.ppo_mini_batch_size=1",
        "algorithm.ppo_epochs=2",
        "algorithm.clip_ratio_c=3.0",
        "optimizer.schedule=cosine",
    ] {
        let steps = run(folder.path(), words, &[words, "trainer.total_steps=1"]);
        assert!(get(&steps[0], "actor/grad_norm").is_finite(), "{words}");
    }
}

/// §7: an update with a non-finite loss or gradient changes nothing, is counted, and its batch is kept.
#[test]
fn a_broken_step_is_skipped_counted_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    // The first update makes weights that are not finite; every later one must be refused.
    let steps = run(folder.path(), "broken", &["optimizer.lr=1e39", "trainer.save_freq=0"]);
    let skipped: Vec<f64> = steps.iter().map(|step| get(step, "rex/skipped_updates")).collect();
    assert_eq!(skipped, [0.0, 1.0, 2.0]);
    assert!(get(&steps[1], "actor/pg_loss").is_nan());
    for (step, kept) in [(1, false), (2, true), (3, true)] {
        let path = folder.path().join(format!("broken/rollouts/{step}.skipped.jsonl"));
        assert_eq!(path.exists(), kept, "{}", path.display());
    }
}
