//! Tokens a second of a SmolLM2-135M-shaped decoder (random weights) on the CPU: decoding 8 rows that hold 64 tokens,
//! prefill of 512 tokens, and forward and backward pass over 4 x 256 tokens with every token scored.

use std::hint::black_box;

use burn::tensor::Device;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rex_model::{DecoderConfig, Engine, Job, RowId, Sampling};

const SMOLLM2_135M: &str = r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": true,
    "rope_theta": 100000, "max_position_embeddings": 8192}"#;

fn tokens(n: u32) -> Vec<u32> {
    (0..n).map(|t| t * 7919 % 49152).collect()
}

fn generation(c: &mut Criterion) {
    let config = DecoderConfig::from_hf(SMOLLM2_135M).expect("a valid configuration");
    let decoder = config.init(&Device::flex());
    let mut group = c.benchmark_group("generation");
    group.sample_size(10);

    let prompt = tokens(512);
    group.throughput(Throughput::Elements(512));
    group.bench_function("prefill 512", |b| {
        let mut engine = Engine::new(&decoder, Sampling::Temperature(1.0));
        b.iter(|| {
            let row = engine.open();
            black_box(engine.advance(&[Job { row, tokens: &prompt, score: false, draw: Some(0.5) }]));
            engine.close(row);
        });
    });

    group.throughput(Throughput::Elements(8));
    group.bench_function("decode 8 rows", |b| {
        let mut engine = Engine::new(&decoder, Sampling::Temperature(1.0));
        let prompts: Vec<RowId> = (0..8).map(|_| engine.open()).collect();
        let prefill = |row: &RowId| Job { row: *row, tokens: &prompt[..64], score: false, draw: None };
        engine.advance(&prompts.iter().map(prefill).collect::<Vec<_>>());
        let decode = |row: &RowId| Job { row: *row, tokens: &prompt[64..65], score: false, draw: Some(0.5) };
        let jobs: Vec<Job<'_>> = prompts.iter().map(decode).collect();
        b.iter(|| black_box(engine.advance(&jobs)));
    });
}

fn training(c: &mut Criterion) {
    let config = DecoderConfig::from_hf(SMOLLM2_135M).expect("a valid configuration");
    let decoder = config.init(&Device::flex().autodiff());
    let row = tokens(256);
    let score: Vec<Vec<bool>> = vec![(0..256).map(|t| t > 0).collect(); 4];
    let mut group = c.benchmark_group("training");
    group.sample_size(10).throughput(Throughput::Elements(4 * 256));
    group.bench_function("forward and backward 4 x 256", |b| {
        let rows: Vec<&[u32]> = vec![&row; 4];
        b.iter(|| decoder.log_probs(&rows, &score, 1.0).sum().backward());
    });
}

criterion_group!(benches, generation, training);
criterion_main!(benches);
