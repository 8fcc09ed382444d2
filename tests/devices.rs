//! Parity: a device computes what the CPU computes, on shapes that break GPUs. `REX_TEST_DEVICE` names the device (`wgpu`
//! without it), and every test prints its worst difference:
//!
//! ```sh
//! scripts/parity wgpu --all
//! ```
//!
//! A difference is that of two elements, in shares of the largest element of their tensor.

#[allow(dead_code, reason = "the tests open devices, they do not list them")]
#[path = "../src/device/mod.rs"]
mod device;
#[path = "fixtures/numbers.rs"]
mod numbers;
#[path = "fixtures/tiny.rs"]
mod tiny;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rex_grpo::{BatchTotals, RatioLevel};
use rex_model::{Activations, Decoder, DecoderConfig, Engine, Job, Lora, RowId, Sampling};
use rex_rollout::Author;
use rex_trainer::config::{AlgorithmConfig, Config, OptimizerConfig, RolloutConfig};
use rex_trainer::learner::optimizer::global_norm;
use rex_trainer::learner::{Evaluated, Models, Objective, Optimizer, Row};
use rex_trainer::{Alone, Trainer};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a computation gave, by name.
type Values = BTreeMap<String, Vec<f32>>;

const FAMILIES: [&str; 3] = [
    r#""model_type": "llama", "tie_word_embeddings": true"#,
    r#""model_type": "qwen2""#,
    r#""model_type": "qwen3", "head_dim": 8, "attention_bias": true"#,
];

/// Qwen2.5's vocabulary: logits of 220 tokens fill the 128 MiB that WebGPU promises to bind.
const LARGE_VOCABULARY: &str =
    r#""model_type": "qwen2", "vocab_size": 151936, "num_hidden_layers": 1, "tie_word_embeddings": true"#;

fn tested() -> Device {
    let name = std::env::var("REX_TEST_DEVICE").unwrap_or_else(|_| "wgpu".to_string());
    device::open(&name).unwrap_or_else(|error| panic!("{error:#}"))
}

/// A decoder on the CPU, whose every parameter matters: attention is sharp, biases and norms are not 0 and 1.
fn decoder(fields: &str) -> Decoder {
    struct Loud;
    impl ModuleMapper for Loud {
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            parameter.map(|tensor| {
                let noise = tensor.random_like(Distribution::Normal(0.0, 0.2));
                (tensor + noise).detach().require_grad()
            })
        }
    }
    let json = format!(
        r#"{{"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "max_position_embeddings": 8192, {fields}}}"#
    );
    let cpu = Device::flex();
    cpu.seed(7);
    DecoderConfig::from_hf(&json).unwrap().init(&cpu.autodiff()).map(&mut Loud)
}

fn random_ids(seed: u64, n: usize, vocabulary: u32) -> Vec<u32> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..n).map(|_| random.random_range(0..vocabulary)).collect()
}

/// Computes on the CPU and on the device, and compares.
#[track_caller]
fn check(name: &str, tolerance: f32, decoder: Decoder, compute: impl Fn(&Decoder) -> Values) {
    let expected = compute(&decoder);
    let found = compute(&decoder.fork(&tested().autodiff()));
    assert!(found.keys().eq(expected.keys()), "{name}: other values");
    let (mut worst, mut of) = (0.0, "");
    for (part, expected) in &expected {
        let difference = difference(&found[part], expected);
        assert!(!difference.is_nan(), "{name}: {part} is not finite");
        if difference >= worst {
            (worst, of) = (difference, part);
        }
    }
    println!("{name}: worst difference {worst:.1e} ({of}), tolerance {tolerance:.0e}");
    assert!(worst <= tolerance, "{name}: {of} differs by {worst}");
}

fn difference(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let scale = expected.iter().fold(f32::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
    let pairs = found.iter().zip(expected);
    pairs.map(|(a, b)| (a - b).abs() / scale).fold(0.0, |worst, d| if d.is_nan() { d } else { worst.max(d) })
}

fn floats<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

/// Gradients, or where there are none parameters, by the path of the parameter.
fn by_parameter(decoder: &Decoder, gradients: Option<&GradientsParams>) -> Values {
    struct Collect<'g> {
        path: Vec<String>,
        gradients: Option<&'g GradientsParams>,
        values: Values,
    }
    impl ModuleVisitor for Collect<'_> {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_string());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
            let tensor = match self.gradients {
                Some(gradients) => gradients.get::<D>(parameter.id),
                None => Some(parameter.val()),
            };
            if let Some(tensor) = tensor {
                self.values.insert(self.path.join("."), floats(tensor));
            }
        }
    }
    let mut collect = Collect { path: Vec::new(), gradients, values: Values::new() };
    decoder.visit(&mut collect);
    collect.values
}

#[test]
#[ignore = "needs a device"]
fn parity_of_the_forward_pass() {
    for fields in FAMILIES {
        for rows in [1, 5] {
            let ids: Vec<i32> = random_ids(1, rows * 70, 61).into_iter().map(|id| id as i32).collect();
            check("forward", 1e-4, decoder(fields), |decoder| {
                let decoder = decoder.valid();
                let ids =
                    Tensor::<2, Int>::from_data(TensorData::new(ids.clone(), [rows, 70]), &decoder.device());
                let hidden = decoder.forward(ids, None).flatten::<2>(0, 1);
                Values::from([("logits".to_string(), floats(decoder.logits(hidden)))])
            });
        }
    }
}

/// Prefill of unequal prompts, draws, forks, rows that end, and the log-probabilities of given tokens.
#[test]
#[ignore = "needs a device"]
fn parity_of_cached_decoding() {
    for fields in FAMILIES {
        check("cached decoding", 1e-4, decoder(fields), |decoder| decode(decoder, 61, 24));
    }
}

/// A draw inverts the cumulative distribution: its number lies in the token's part of it. (Of 151,936 tokens a part is often less
/// than the rounding of a sum in f32, so that two devices may draw neighbours.)
#[test]
#[ignore = "needs a device"]
fn parity_of_drawing() {
    check_draws(decoder(r#""model_type": "qwen2", "vocab_size": 49152"#));
}

#[test]
#[ignore = "needs a device"]
fn parity_of_drawing_from_a_large_vocabulary() {
    check_draws(decoder(LARGE_VOCABULARY));
}

fn check_draws(decoder: Decoder) {
    const TOLERANCE: f64 = 1e-5;
    let cpu = decoder.frozen();
    let vocabulary = cpu.embed_tokens.weight.dims()[0];
    let prompt = random_ids(3, 12, vocabulary as u32);
    let next = cpu.alternatives(&[&prompt[..], &[0]].concat(), vocabulary, 1.0).pop().unwrap();
    let mut probabilities = vec![0.0; vocabulary];
    for (&id, &log_prob) in next.ids.iter().zip(&next.log_probs) {
        probabilities[id as usize] = f64::from(log_prob).exp();
    }
    let mut sum = 0.0;
    let mut below = Vec::new();
    for probability in &probabilities {
        below.push(sum);
        sum += probability;
    }
    let uniforms: Vec<f64> = (0..32).map(|i| (f64::from(i) + 0.5) / 32.0).collect();
    for (name, decoder) in [("cpu", cpu.clone()), ("device", cpu.fork(&tested()))] {
        let mut engine = Engine::new(&decoder, Sampling::Temperature(1.0));
        let rows: Vec<RowId> = uniforms.iter().map(|_| engine.open()).collect();
        let job = |(&row, &uniform)| Job { row, tokens: &prompt, score: false, draw: Some(uniform) };
        let jobs: Vec<Job<'_>> = rows.iter().zip(&uniforms).map(job).collect();
        let mut worst = 0.0f64;
        for (advance, u) in engine.advance(&jobs).iter().zip(&uniforms) {
            let id = advance.drawn.unwrap().id as usize;
            let outside = (below[id] - u * sum).max(u * sum - below[id] - probabilities[id]);
            worst = worst.max(outside);
        }
        println!(
            "draws on {name}: at most {worst:.1e} outside of the token's part, tolerance {TOLERANCE:.0e}"
        );
        assert!(worst <= TOLERANCE);
    }
}

fn decode(decoder: &Decoder, vocabulary: u32, steps: usize) -> Values {
    let decoder = decoder.frozen();
    let mut engine = Engine::new(&decoder, Sampling::Temperature(1.0));
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut rows: Vec<(RowId, Vec<u32>)> =
        [3, 40, 17].iter().map(|&n| (engine.open(), random_ids(n as u64, n, vocabulary))).collect();
    let (mut drawn_ids, mut log_probs) = (Vec::new(), Vec::new());
    for step in 0..steps {
        if step == steps / 2 {
            // One ends, and another goes on elsewhere from the middle of a third.
            let (ended, _) = rows.remove(0);
            engine.close(ended);
            let fork = engine.fork(rows[0].0, 20);
            let mut ids = rows[0].1[..20].to_vec();
            ids.extend(random_ids(9, 30, vocabulary));
            rows.push((fork, ids));
        }
        let jobs: Vec<Job<'_>> = rows
            .iter()
            .map(|(row, ids)| Job {
                row: *row,
                tokens: &ids[engine.len(*row)..],
                score: true,
                draw: Some(random.random()),
            })
            .collect();
        let advances = engine.advance(&jobs);
        for ((_, ids), advance) in rows.iter_mut().zip(advances) {
            let drawn = advance.drawn.unwrap();
            ids.push(drawn.id);
            drawn_ids.push(drawn.id as f32);
            log_probs.extend(advance.log_probs);
            log_probs.push(drawn.log_prob);
        }
    }
    Values::from([("ids".to_string(), drawn_ids), ("log_probs".to_string(), log_probs)])
}

/// Log-probabilities of all tokens but the first, and the gradient of their sum.
fn scored(decoder: &Decoder, rows: &[&[u32]], activations: Activations) -> Values {
    let score: Vec<Vec<bool>> = rows.iter().map(|row| (0..row.len()).map(|t| t > 0).collect()).collect();
    let pass = decoder.pass(rows, &score, 0.8, activations);
    let log_probs = pass.log_probs();
    let slopes = log_probs.ones_like();
    let mut values = by_parameter(decoder, Some(&pass.backward(slopes)));
    values.insert("log_probs".to_string(), floats(log_probs));
    values
}

#[test]
#[ignore = "needs a device"]
fn parity_of_log_probs_over_a_large_vocabulary() {
    let ids = random_ids(4, 256, 151_936);
    for activations in [Activations::Kept, Activations::Recomputed] {
        check("large vocabulary", 1e-4, decoder(LARGE_VOCABULARY), |decoder| {
            scored(decoder, &[&ids], activations)
        });
    }
}

#[test]
#[ignore = "needs a device"]
fn parity_of_a_long_sequence() {
    let ids = random_ids(5, 4096, 61);
    let fields =
        r#""model_type": "qwen2", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2"#;
    check("4,096 tokens", 1e-3, decoder(fields), |decoder| scored(decoder, &[&ids], Activations::Kept));
}

/// The rows of a step: probes, tokens that are clipped, and a row none of whose tokens is in the loss.
fn rows(reference: &Decoder, count: usize) -> Vec<Row> {
    let mut random = ChaCha8Rng::seed_from_u64(6);
    let row = |r: usize| {
        let ids = random_ids(10 + r as u64, 20 + 9 * r, 61);
        let loss_mask: Vec<bool> = (0..ids.len()).map(|t| t > 4 && r != 2).collect();
        let log_old = floats(reference.log_probs(&[&ids], std::slice::from_ref(&loss_mask), 1.0));
        let log_old: Vec<f64> = log_old.into_iter().map(f64::from).collect();
        let author = |t: usize| match t {
            0..=4 => Author::Prompt,
            5..=8 if r == 1 => Author::Probe,
            _ => Author::Model,
        };
        Row {
            authors: (0..ids.len()).map(author).collect(),
            behaviour: log_old.iter().map(|log_old| log_old + random.random_range(-0.4..0.4)).collect(),
            log_old,
            loss_mask,
            advantage: if r.is_multiple_of(2) { 1.3 } else { -0.7 },
            group: r / 2,
            ids,
        }
    };
    (0..count).map(row).collect()
}

#[test]
#[ignore = "needs a device"]
fn parity_of_the_gradient_of_the_corrected_loss() {
    let algorithm = AlgorithmConfig { kl_loss_coef: 0.1, ..Default::default() };
    let objective = Objective::new(&algorithm, &RolloutConfig::default());
    for (count, level) in [(1, RatioLevel::Token), (5, RatioLevel::Token), (5, RatioLevel::Transcript)] {
        for activations in [Activations::Kept, Activations::Recomputed] {
            let decoder = decoder(FAMILIES[1]);
            let rows = rows(&decoder.valid(), count);
            let rows: Vec<&Row> = rows.iter().collect();
            let totals = BatchTotals::of(rows.iter().map(|row| row.loss_mask.as_slice()));
            check("corrected loss", 1e-4, decoder, |policy| {
                let reference = policy.valid();
                let models = Models { policy, activations, reference: Some(&reference) };
                let Evaluated { gradients, found } = objective.evaluate(models, &rows, level, &totals);
                let found: Vec<f32> = found.into_data().try_to_vec().unwrap();
                let found = objective.read(&rows, &mut found.as_slice());
                let mut values = by_parameter(policy, Some(&gradients));
                let (log_ratios, clipped) = (found.tokens.iter().map(|token| token.log_ratio as f32))
                    .zip(found.tokens.iter().map(|token| f32::from(token.clipped)))
                    .unzip();
                values.insert("log_ratios".to_string(), log_ratios);
                values.insert("clipped".to_string(), clipped);
                values.insert("losses".to_string(), vec![found.pg_loss as f32, found.kl_loss as f32]);
                values
            });
        }
    }
}

/// The same gradient on both: the first step of AdamW divides a gradient by itself, and would turn rounding into a sign.
#[test]
#[ignore = "needs a device"]
fn parity_of_an_optimizer_step() {
    let on_cpu = decoder(FAMILIES[2]);
    let ids = random_ids(7, 60, 61);
    let config = OptimizerConfig { lr: 1e-2, lr_warmup_steps_ratio: 0.0, ..Default::default() };
    let gradients = || {
        let score = vec![(0..ids.len()).map(|t| t > 0).collect()];
        let pass = on_cpu.pass(&[&ids], &score, 1.0, Activations::Kept);
        let slopes = pass.log_probs().ones_like();
        pass.backward(slopes)
    };
    check("AdamW", 1e-5, on_cpu.clone(), |decoder| {
        let mut optimizer = Optimizer::new(&config, 10);
        let gradients = || gradients().to_device(&decoder.device().inner(), decoder);
        let norm = global_norm(decoder, &gradients());
        let mut trained = decoder.clone();
        for step in 1..=3 {
            trained = optimizer.step(step, trained, gradients(), norm);
        }
        let trained = by_parameter(&trained, None);
        assert!(by_parameter(decoder, None).iter().all(|(name, before)| trained[name] != *before));
        trained
    });
}

/// Everything but the adapters is frozen: no other parameter has a gradient, and theirs are finite.
#[test]
#[ignore = "needs a device"]
fn parity_of_the_gradient_of_adapters_alone() {
    struct Noise;
    impl ModuleMapper for Noise {
        fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
            if !parameter.is_require_grad() {
                return parameter;
            }
            parameter.map(|tensor| {
                let noise = tensor.random_like(Distribution::Normal(0.0, 0.1));
                (tensor + noise).detach().require_grad()
            })
        }
    }
    let lora = Lora { rank: 4, alpha: 8.0, target_modules: Lora::MODULES.map(String::from).to_vec() };
    let decoder = decoder(FAMILIES[1]).with_adapters(&lora, 1).map(&mut Noise);
    let ids = [random_ids(8, 40, 61), random_ids(9, 23, 61)];
    let rows: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
    for activations in [Activations::Kept, Activations::Recomputed] {
        check("adapters", 1e-4, decoder.clone(), |decoder| {
            let values = scored(decoder, &rows, activations);
            assert_eq!(values.len(), 2 * 7 * 2 + 1, "{:?}", values.keys());
            values
        });
    }
}

/// Three steps of mixed sampling, search and training under the same seed: every number that a run records.
#[test]
#[ignore = "needs a device"]
fn parity_of_a_run() {
    const TOLERANCE: f64 = 1e-3;
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let run = |name: &str, device: &Device| {
        let run_dir = folder.path().join(name);
        let words = [format!("trainer.run_dir={}", run_dir.display())];
        let config = Config::load(Some(&config), &words).unwrap();
        Trainer::start(config, device, Rc::new(Alone)).unwrap().run(&mut ()).unwrap();
        numbers::metrics(&run_dir)
    };
    let expected = run("cpu", &Device::flex());
    let found = run("device", &tested());
    let (worst, of) = numbers::worst_difference(&found, &expected);
    println!("three steps: worst difference {worst:.1e} ({of}), tolerance {TOLERANCE:.0e}");
    assert!(worst <= TOLERANCE, "{of}");
}

/// Of a hundred steps, each a loss, its gradient, an update and some draws, the last half adds nothing to the memory that the
/// first half took.
#[test]
#[ignore = "needs a device"]
fn parity_of_memory_after_fifty_and_a_hundred_steps() {
    const MIB: f64 = (1 << 20) as f64;
    let device = tested();
    let mut policy = decoder(FAMILIES[0]).fork(&device.clone().autodiff());
    let rows = rows(&policy.valid(), 5);
    let rows: Vec<&Row> = rows.iter().collect();
    let totals = BatchTotals::of(rows.iter().map(|row| row.loss_mask.as_slice()));
    let objective = Objective::new(&AlgorithmConfig::default(), &RolloutConfig::default());
    let mut optimizer = Optimizer::new(&OptimizerConfig::default(), 100);
    let mut seen = Vec::new();
    for step in 1..=100 {
        let reference = policy.valid();
        let models = Models { policy: &policy, activations: Activations::Kept, reference: Some(&reference) };
        let Evaluated { gradients, .. } = objective.evaluate(models, &rows, RatioLevel::Token, &totals);
        let norm = global_norm(&policy, &gradients);
        policy = optimizer.step(step, policy, gradients, norm);
        decode(&policy, 61, 2);
        if step % 10 == 0 {
            let usage = device.memory_pool_usage();
            let (used, reserved) = usage.map_or((0, 0), |usage| (usage.bytes_in_use, usage.bytes_reserved));
            seen.push([resident(), used as f64 / MIB, reserved as f64 / MIB]);
            let [resident, used, reserved] = seen[seen.len() - 1];
            println!(
                "step {step}: MiB resident {resident:.1}, on the device {used:.2} of {reserved:.2} reserved"
            );
        }
    }
    for (middle, end) in seen[4].into_iter().zip(seen[9]) {
        assert!(end <= 1.05 * middle, "{middle:.2} MiB after 50 steps, {end:.2} MiB after 100");
    }
}

/// MiB of this process in memory; 0 where the system does not say.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}
