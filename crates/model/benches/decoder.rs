//! The hot paths on the CPU, with random weights, for the shapes of Hopworld's model (0.9 M parameters) and of SmolLM2-135M:
//! decoding 1, 8 and 32 rows that hold 64 tokens, prefill of 256 tokens, log-probabilities of 4 x 256 tokens, and the
//! gradient (forward and backward) of as many, in two passes at once (`trainer.passes_at_once`). `scripts/bench` runs PyTorch on
//! the same and puts both beside their floors. Each work is done once before it is timed: the first use of a weight draws it, which
//! takes longer than the large shape's forward pass.

use std::hint::black_box;
use std::num::NonZero;

use burn::optim::GradientsAccumulator;
use burn::tensor::Device;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rayon::prelude::*;
use rex_model::{Activations, Decoder, DecoderConfig, Engine, Job, RowId, Sampling};

const SHAPES: [(&str, &str); 2] = [
    (
        "0.9M",
        r#"{"model_type": "qwen2", "vocab_size": 205, "hidden_size": 128, "intermediate_size": 344,
            "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": true,
            "rope_theta": 10000, "max_position_embeddings": 1024}"#,
    ),
    (
        "135M",
        r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
            "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": true,
            "rope_theta": 100000, "max_position_embeddings": 8192}"#,
    ),
];

const HELD: usize = 64;
const PREFILL: usize = 256;
const ROWS: usize = 4;

fn tokens(config: &DecoderConfig, n: usize) -> Vec<u32> {
    (0..n).map(|t| (t * 7919 % config.vocab_size) as u32).collect()
}

fn shapes() -> impl Iterator<Item = (&'static str, DecoderConfig)> {
    SHAPES.iter().map(|(name, json)| (*name, DecoderConfig::from_hf(json).expect("a valid configuration")))
}

/// An engine with rows that hold all of the prompt but its last token, and the jobs that feed this one and draw the next.
fn decoding<'d>(decoder: &'d Decoder, prompt: &'d [u32], rows: usize) -> (Engine<'d>, Vec<Job<'d>>) {
    let mut engine = Engine::new(decoder, Sampling::Temperature(1.0));
    let open: Vec<RowId> = (0..rows).map(|_| engine.open()).collect();
    let (held, last) = prompt.split_at(prompt.len() - 1);
    let prefill = |row: &RowId| Job { row: *row, tokens: held, score: false, draw: None };
    engine.advance(&open.iter().map(prefill).collect::<Vec<_>>());
    let decode = |row: &RowId| Job { row: *row, tokens: last, score: false, draw: Some(0.5) };
    (engine, open.iter().map(decode).collect())
}

fn generation(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.sample_size(10);
    for (name, config) in shapes() {
        let decoder = config.init(&Device::flex());
        let prompt = tokens(&config, HELD + 1);
        for rows in [1, 8, 32] {
            // As the sampler: rows of a small decoder are decoded in parts, one a thread.
            let parts = if decoder.is_small() { rayon::current_num_threads().min(rows) } else { 1 };
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_function(BenchmarkId::new(name, rows), |b| {
                let share = |part: usize| (part + 1) * rows / parts - part * rows / parts;
                let mut parts: Vec<_> =
                    (0..parts).map(|part| decoding(&decoder, &prompt, share(part))).collect();
                b.iter(|| {
                    parts.par_iter_mut().map(|(engine, jobs)| engine.advance(jobs)).collect::<Vec<_>>()
                });
            });
        }
    }
    group.finish();

    let mut group = c.benchmark_group("prefill");
    group.sample_size(10).throughput(Throughput::Elements(PREFILL as u64));
    for (name, config) in shapes() {
        let decoder = config.init(&Device::flex());
        let prompt = tokens(&config, PREFILL);
        group.bench_function(BenchmarkId::new(name, PREFILL), |b| {
            let mut engine = Engine::new(&decoder, Sampling::Temperature(1.0));
            let mut prefill = || {
                let row = engine.open();
                black_box(engine.advance(&[Job { row, tokens: &prompt, score: false, draw: Some(0.5) }]));
                engine.close(row);
            };
            prefill();
            b.iter(prefill);
        });
    }
}

fn training(c: &mut Criterion) {
    let score: Vec<Vec<bool>> = vec![(0..PREFILL).map(|t| t > 0).collect(); ROWS];
    for (group, activations) in [
        ("log_probs", None),
        ("train", Some(Activations::Kept)),
        ("train_recomputed", Some(Activations::Recomputed)),
    ] {
        let mut group = c.benchmark_group(group);
        group.sample_size(10).throughput(Throughput::Elements((ROWS * PREFILL) as u64));
        for (name, config) in shapes() {
            // None begins as another: what rows have in common is computed once.
            let all = tokens(&config, ROWS + PREFILL);
            let rows: Vec<&[u32]> = (0..ROWS).map(|r| &all[r..r + PREFILL]).collect();
            let id = BenchmarkId::new(name, ROWS * PREFILL);
            let device = Device::flex();
            let decoder = config.init(&if activations.is_some() { device.autodiff() } else { device });
            let (passes, at_once): (Vec<&[&[u32]]>, _) = (rows.chunks(ROWS / 2).collect(), NonZero::new(2));
            group.bench_function(id, |b| match activations {
                None => {
                    let score = || {
                        let pass = |decoder: &Decoder, rows: &&[&[u32]]| {
                            decoder.log_probs(rows, &score[..rows.len()], 1.0).into_data()
                        };
                        decoder.side_by_side(&passes, at_once, pass, |log_probs| drop(black_box(log_probs)));
                    };
                    score();
                    b.iter(score)
                }
                Some(activations) => {
                    let step = || {
                        let pass = |decoder: &Decoder, rows: &&[&[u32]]| {
                            let pass = decoder.pass(rows, &score[..rows.len()], 1.0, activations);
                            let slopes = pass.log_probs().ones_like();
                            pass.backward(slopes)
                        };
                        let mut gradients = GradientsAccumulator::new();
                        decoder.side_by_side(&passes, at_once, pass, |part| {
                            gradients.accumulate(&decoder, part)
                        });
                        black_box(gradients.grads())
                    };
                    step();
                    b.iter(step)
                }
            });
        }
    }
}

criterion_group!(benches, generation, training);
criterion_main!(benches);
