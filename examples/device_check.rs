//! How fast a device generates and trains: decoders of three shapes with random weights, beside what the device can do at most,
//! which is measured first: `device_check DEVICE [SHAPE…]`.
//!
//! Decoding draws one token a row per pass, which reads every weight once; its share is that of the memory bandwidth.
//! Training is a forward and a backward pass, about six operations a weight and token; its share is that of the matrix
//! products (the model's FLOPs utilisation). A first round of each is not counted: kernels are compiled and tuned in it.

#[allow(dead_code, reason = "devices are opened here, not listed")]
#[path = "../src/device/mod.rs"]
mod device;

use anyhow::{Result, bail};
use burn::module::Module;
use burn::tensor::{DType, Device, Distribution, FloatDType, Tensor};
use rex_model::{Activations, DecoderConfig, Engine, Job, RowId, Sampling};
use std::time::{Duration, Instant};

const SHAPES: [(&str, &str); 4] = [
    (
        "0.9M",
        r#"{"model_type": "qwen2", "vocab_size": 205, "hidden_size": 128, "intermediate_size": 344,
            "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": true}"#,
    ),
    (
        "135M",
        r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
            "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": true,
            "max_position_embeddings": 8192}"#,
    ),
    (
        "0.5B",
        r#"{"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864,
            "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "tie_word_embeddings": true}"#,
    ),
    (
        "1.5B",
        r#"{"model_type": "qwen2", "vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960,
            "num_hidden_layers": 28, "num_attention_heads": 12, "num_key_value_heads": 2, "tie_word_embeddings": true}"#,
    ),
];

/// Rows decoded at once, and the tokens that each holds before.
const ROWS: usize = 64;
const HELD: usize = 256;
/// Tokens of a training pass.
const TRAINED: (usize, usize) = (4, 512);
/// What is measured is repeated for so long, at least once.
const PATIENCE: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        bail!("device_check DEVICE [SHAPE…], for example device_check cuda 135M")
    };
    let chosen: Vec<String> = words.collect();
    let known = |shape: &String| SHAPES.iter().any(|(name, _)| name == shape);
    if let Some(unknown) = chosen.iter().find(|shape| !known(shape)) {
        bail!("no shape `{unknown}`: there are {}", SHAPES.map(|(name, _)| name).join(", "));
    }
    let device = device::open(&name)?;
    println!("| shape | type | decode tok/s | of bandwidth | train tok/s | of products |");
    println!("|---|---|---:|---:|---:|---:|");
    for (dtype, bytes) in [(FloatDType::F32, 4.0), (FloatDType::BF16, 2.0)] {
        if !device.supports_dtype(dtype) {
            continue;
        }
        let (products, bandwidth) = (products(&device, dtype)?, bandwidth(&device, dtype, bytes)?);
        println!(
            "| at most | {dtype:?} | | {:.0} GB/s | | {:.1} TFLOP/s |",
            bandwidth / 1e9,
            products / 1e12
        );
        let default = chosen.is_empty();
        for (shape, json) in SHAPES.iter().filter(|(shape, _)| match default {
            true => *shape != "0.9M",
            false => chosen.iter().any(|chosen| chosen == shape),
        }) {
            let config = DecoderConfig::from_hf(json)?;
            let (decoded, weights) = decode(&config, &device, dtype)?;
            let trained = train(&config, &device, dtype)?;
            println!(
                "| {shape} | {dtype:?} | {decoded:.0} | {:.1} % | {trained:.0} | {:.1} % |",
                100.0 * decoded / ROWS as f64 * weights * bytes / bandwidth,
                100.0 * trained * 6.0 * weights / products,
            );
        }
    }
    Ok(())
}

/// Seconds that `work` takes, once it has been done once. It ends with a read from the device.
fn seconds(mut work: impl FnMut()) -> f64 {
    work();
    let (started, mut rounds) = (Instant::now(), 0);
    while rounds == 0 || started.elapsed() < PATIENCE {
        work();
        rounds += 1;
    }
    started.elapsed().as_secs_f64() / f64::from(rounds)
}

/// Operations a second in a product of two square matrices.
fn products(device: &Device, dtype: FloatDType) -> Result<f64> {
    const SIDE: usize = 4096;
    let matrix = || Tensor::<2>::random([SIDE, SIDE], Distribution::Default, (device, DType::from(dtype)));
    let (a, b) = (matrix(), matrix());
    device.sync()?;
    let time = seconds(|| {
        let product = a.clone().matmul(b.clone());
        product.slice([0..1, 0..1]).into_data();
    });
    Ok(2.0 * (SIDE as f64).powi(3) / time)
}

/// Bytes a second read and written, adding a number to every element of a large tensor.
fn bandwidth(device: &Device, dtype: FloatDType, bytes: f64) -> Result<f64> {
    // 64 MiB in f32: within what every device binds.
    const ELEMENTS: usize = 1 << 24;
    const TIMES: usize = 10;
    let tensors: Vec<_> =
        (0..TIMES).map(|_| Tensor::<1>::zeros([ELEMENTS], (device, DType::from(dtype)))).collect();
    device.sync()?;
    let time = seconds(|| {
        let sums: Vec<_> = tensors.iter().map(|tensor| tensor.clone().add_scalar(1.0)).collect();
        // One read waits for all.
        let first: Vec<_> = sums.into_iter().map(|sum| sum.narrow(0, 0, 1)).collect();
        Tensor::cat(first, 0).into_data();
    });
    Ok(2.0 * (TIMES * ELEMENTS) as f64 * bytes / time)
}

/// Tokens drawn a second, and the number of weights.
fn decode(config: &DecoderConfig, device: &Device, dtype: FloatDType) -> Result<(f64, f64)> {
    let decoder = config.init(device).computing_in(dtype).frozen();
    let mut engine = Engine::new(&decoder, Sampling::Temperature(1.0));
    let prompt: Vec<u32> = (0..=HELD).map(|t| (t * 7919 % config.vocab_size) as u32).collect();
    let rows: Vec<RowId> = (0..ROWS).map(|_| engine.open()).collect();
    let job = |row: &RowId| Job { row: *row, tokens: &prompt[..HELD], score: false, draw: None };
    engine.advance(&rows.iter().map(job).collect::<Vec<_>>());
    let job = |row: &RowId| Job { row: *row, tokens: &prompt[HELD..], score: false, draw: Some(0.5) };
    let jobs: Vec<Job<'_>> = rows.iter().map(job).collect();
    let time = seconds(|| drop(engine.advance(&jobs)));
    Ok((ROWS as f64 / time, decoder.num_params() as f64))
}

/// Tokens a second through a forward and a backward pass.
fn train(config: &DecoderConfig, device: &Device, dtype: FloatDType) -> Result<f64> {
    let decoder = config.init(&device.clone().autodiff()).computing_in(dtype);
    let (rows, width) = TRAINED;
    let row: Vec<u32> = (0..width).map(|t| (t * 7919 % config.vocab_size) as u32).collect();
    let batch: Vec<&[u32]> = vec![&row; rows];
    let score: Vec<Vec<bool>> = vec![(0..width).map(|t| t > 0).collect(); rows];
    let time = seconds(|| {
        let pass = decoder.pass(&batch, &score, 1.0, Activations::Recomputed);
        let slopes = pass.log_probs().ones_like();
        let gradients = pass.backward(slopes);
        let norm = gradients.get::<1>(decoder.norm.weight.id).expect("every parameter is trained");
        norm.into_data();
    });
    device.memory_cleanup();
    Ok((rows * width) as f64 / time)
}
