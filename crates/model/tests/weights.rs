//! Checkpoints read back as they were written, and damaged ones are refused by name.

mod fixtures;

use std::{
    collections::{BTreeMap, BTreeSet},
    f64::consts::PI,
    fs,
    io::Cursor,
    path::{Path, PathBuf},
};

use burn::tensor::Device;
use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use fixtures::{FOLDERS, parameters, path};
use rex_model::{
    DecoderConfig, HuggingFaceFiles, LoadedModel, Lora, Precision, RopeScaling, load, load_adapter,
    save_adapter,
};
use safetensors::{Dtype, SafeTensors, serialize_to_file, tensor::TensorView};
use tempfile::TempDir;

const GIGABYTE: usize = 1 << 30;

fn device() -> Device {
    Device::flex()
}

#[test]
fn what_is_saved_is_loaded_bit_for_bit() {
    for name in FOLDERS {
        let model = load(&path(name), &device()).unwrap();
        let folder = TempDir::new().unwrap();
        // Shards first: the single file written over them must win.
        for (max_shard_bytes, files) in [(50_000, 2..9), (GIGABYTE, 1..2)] {
            model.save(folder.path(), Precision::F32, max_shard_bytes).unwrap();
            let read = load(folder.path(), &device()).unwrap();
            assert_eq!(read.config, model.config, "{name}");
            assert_eq!(read.tokenizer.to_json(), model.tokenizer.to_json(), "{name}");
            assert_eq!(read.chat_template, model.chat_template, "{name}");
            assert!(parameters(&read.decoder) == parameters(&model.decoder), "{name}: other weights");
            let index =
                fs::read_to_string(folder.path().join("model.safetensors.index.json")).unwrap_or_default();
            let shards = (1..9).filter(|i| index.contains(&format!("model-0000{i}-of"))).count().max(1);
            assert!(files.contains(&shards), "{name}: {shards} shards of {max_shard_bytes} bytes");
        }
    }
}

#[test]
fn adapters_are_written_as_peft_wrote_them() {
    let modules = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"];
    let lora = Lora { rank: 3, alpha: 6.0, target_modules: modules.map(String::from).to_vec() };
    let fresh = || load(&path("qwen2"), &device()).unwrap().decoder.with_adapters(&lora, 1);
    let folder = TempDir::new().unwrap();
    let decoder = load_adapter(&path("adapter"), fresh()).unwrap();
    save_adapter(folder.path(), &decoder, &lora, "qwen2", None).unwrap();
    let [theirs, ours] = [path("adapter"), folder.path().into()]
        .map(|folder: PathBuf| fs::read(folder.join("adapter_model.safetensors")).unwrap());
    let [theirs, ours] = [&theirs, &ours].map(|bytes| SafeTensors::deserialize(bytes).unwrap());
    assert_eq!(theirs.len(), ours.len());
    for (name, tensor) in theirs.iter() {
        assert!(ours.tensor(name).unwrap() == tensor, "{name}");
    }
    let [theirs, ours] = [path("adapter"), folder.path().into()].map(|folder: PathBuf| {
        let text = fs::read_to_string(folder.join("adapter_config.json")).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    });
    for (key, value) in ours.as_object().unwrap() {
        let sorted = |value: &serde_json::Value| match value.as_array() {
            Some(list) => list.iter().map(ToString::to_string).collect::<BTreeSet<_>>(),
            None => BTreeSet::from([value.to_string().trim_end_matches(".0").to_string()]),
        };
        assert_eq!(sorted(value), sorted(&theirs[key]), "{key}");
    }
    // Other adapters than those in the file.
    let more = Lora { target_modules: vec!["k_proj".into()], ..lora.clone() };
    let wider = Lora { rank: 4, ..lora.clone() };
    for (other, message) in [(more, "k_proj.lora_A.weight` is missing"), (wider, "has shape [3, 32]")] {
        let decoder = load(&path("qwen2"), &device()).unwrap().decoder.with_adapters(&other, 1);
        let error = load_adapter(folder.path(), decoder).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn bf16_weights_are_written_as_they_were_read() {
    let model = load(&path("qwen3"), &device()).unwrap();
    let folder = TempDir::new().unwrap();
    model.save(folder.path(), Precision::Bf16, GIGABYTE).unwrap();
    let [original, written] = [path("qwen3"), folder.path().into()]
        .map(|folder: PathBuf| fs::read(folder.join("model.safetensors")).unwrap());
    let [original, written] = [&original, &written].map(|bytes| SafeTensors::deserialize(bytes).unwrap());
    assert_eq!(original.len(), written.len());
    for (name, tensor) in original.iter() {
        assert!(written.tensor(name).unwrap() == tensor, "{name}");
    }
}

#[test]
fn a_new_decoder_is_saved_too() {
    let mut model = load(&path("qwen2"), &device()).unwrap();
    model.decoder = model.config.init(&device());
    let folder = TempDir::new().unwrap();
    model.save(folder.path(), Precision::F32, GIGABYTE).unwrap();
    let read = load(folder.path(), &device()).unwrap();
    assert!(parameters(&read.decoder) == parameters(&model.decoder));
}

#[test]
fn bytes_in_memory_are_as_good_as_files() {
    let read = |file: &str| fs::read(path("llama").join(file)).unwrap();
    let files = HuggingFaceFiles {
        config_json: &String::from_utf8(read("config.json")).unwrap(),
        generation_config_json: None,
        tokenizer_json: &read("tokenizer.json"),
        chat_template: None,
        weights: vec![("model.safetensors".into(), Cursor::new(read("model.safetensors")))],
    };
    let model = LoadedModel::from_hugging_face(files, &device()).unwrap();
    assert_eq!(model.config.eos_token_ids, [302], "without the generation config");
    assert!(parameters(&model.decoder) == parameters(&load(&path("llama"), &device()).unwrap().decoder));

    let file = path("llama.gguf");
    let model =
        LoadedModel::from_gguf("llama.gguf", Cursor::new(fs::read(&file).unwrap()), &device()).unwrap();
    assert!(parameters(&model.decoder) == parameters(&load(&file, &device()).unwrap().decoder));
}

#[test]
fn a_gguf_file_becomes_a_folder() {
    let model = load(&path("qwen2.gguf"), &device()).unwrap();
    let folder = TempDir::new().unwrap();
    model.save(folder.path(), Precision::F32, GIGABYTE).unwrap();
    let read = load(folder.path(), &device()).unwrap();
    assert_eq!(read.config, model.config);
    assert_eq!(read.chat_template.as_deref(), Some("{{ messages }}"));
    assert!(parameters(&read.decoder) == parameters(&model.decoder));
}

#[test]
fn gguf_metadata_gives_the_configuration() {
    let llama = load(&path("llama.gguf"), &device()).unwrap().config;
    let folder = load(&path("llama"), &device()).unwrap().config;
    assert_eq!(
        DecoderConfig { rms_norm_eps: folder.rms_norm_eps, rope_scaling: folder.rope_scaling, ..llama },
        folder
    );
    let qwen2 = load(&path("qwen2.gguf"), &device()).unwrap().config;
    assert!(qwen2.qkv_bias && !qwen2.o_bias && !qwen2.qk_norm && !qwen2.tie_word_embeddings);
}

/// A copy of a fixture folder, to be damaged.
fn copy(name: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    for entry in fs::read_dir(path(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

/// Rewrites `model.safetensors` with one tensor replaced; `None` drops it, a new name adds one.
fn replace(folder: &Path, name: &str, tensor: Option<(Dtype, Vec<usize>, Vec<u8>)>) {
    let file = folder.join("model.safetensors");
    let bytes = fs::read(&file).unwrap();
    let all = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<(String, TensorView)> =
        all.tensors().into_iter().filter(|(other, _)| other != name).collect();
    if let Some((dtype, shape, data)) = &tensor {
        tensors.push((name.into(), TensorView::new(*dtype, shape.clone(), data).unwrap()));
    }
    serialize_to_file(tensors, None, &file).unwrap();
}

fn edit(folder: &Path, file: &str, from: &str, to: &str) {
    let path = folder.join(file);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} has no {from}");
    fs::write(path, text.replace(from, to)).unwrap();
}

fn truncate(file: PathBuf, keep: f64) {
    let bytes = fs::read(&file).unwrap();
    fs::write(file, &bytes[..(bytes.len() as f64 * keep) as usize]).unwrap();
}

#[test]
fn damaged_folders_are_refused_by_name() {
    type Damage = fn(&Path);
    let cases: &[(&str, Damage, &[&str])] = &[
        ("llama", |f| fs::remove_file(f.join("config.json")).unwrap(), &["no model", "config.json"]),
        ("llama", |f| fs::remove_file(f.join("tokenizer.json")).unwrap(), &["no model", "tokenizer.json"]),
        ("llama", |f| fs::remove_file(f.join("model.safetensors")).unwrap(), &["model.safetensors"]),
        ("llama", |f| edit(f, "config.json", "\"llama\"", "\"mamba\""), &["config.json", "mamba", "qwen3"]),
        ("llama", |f| truncate(f.join("config.json"), 0.5), &["config.json", "JSON"]),
        ("llama", |f| truncate(f.join("tokenizer.json"), 0.5), &["tokenizer.json"]),
        (
            "llama",
            |f| edit(f, "config.json", "\"vocab_size\": 304", "\"vocab_size\": 302"),
            &["config.json", "302"],
        ),
        (
            "llama",
            |f| {
                edit(f, "config.json", "\"vocab_size\": 304", "\"vocab_size\": 301");
                edit(f, "config.json", "\"eos_token_id\": 302", "\"eos_token_id\": 2");
                fs::remove_file(f.join("generation_config.json")).unwrap();
            },
            &["tokenizer.json", "302", "301"],
        ),
        (
            "llama",
            |f| edit(f, "config.json", "\"vocab_size\": 304", "\"vocab_size\": 305"),
            &["model.embed_tokens.weight", "304", "305"],
        ),
        (
            "llama",
            |f| edit(f, "config.json", "\"intermediate_size\": 64", "\"intermediate_size\": 65"),
            &["model.layers.0.mlp.gate_proj.weight", "[64, 32]", "[65, 32]"],
        ),
        (
            "llama",
            |f| edit(f, "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3"),
            &["model.layers.2.", "missing"],
        ),
        (
            "llama",
            |f| edit(f, "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1"),
            &["model.layers.1.", "does not have", "more"],
        ),
        ("llama", |f| truncate(f.join("model.safetensors"), 0.0), &["model.safetensors", "too short"]),
        ("llama", |f| truncate(f.join("model.safetensors"), 0.005), &["model.safetensors", "truncated"]),
        (
            "llama",
            |f| truncate(f.join("model.safetensors"), 0.9),
            &["model.safetensors", "truncated", "bytes"],
        ),
        (
            "llama",
            |f| fs::write(f.join("model.safetensors"), "<!DOCTYPE html><p>Not found</p>").unwrap(),
            &["model.safetensors", "not a safetensors file"],
        ),
        (
            "llama",
            |f| replace(f, "model.norm.weight", None),
            &["model.norm.weight", "missing", "model.safetensors"],
        ),
        (
            "llama",
            |f| replace(f, "score.weight", Some((Dtype::F32, vec![1], vec![0; 4]))),
            &["score.weight", "does not have"],
        ),
        (
            "llama",
            |f| replace(f, "model.norm.weight", Some((Dtype::F32, vec![8, 4], vec![0; 128]))),
            &["model.norm.weight", "[8, 4]", "[32]"],
        ),
        (
            "llama",
            |f| replace(f, "model.norm.weight", Some((Dtype::I32, vec![32], vec![0; 128]))),
            &["model.norm.weight", "I32", "BF16"],
        ),
        (
            "llama",
            |f| replace(f, "model.norm.weight", Some((Dtype::F32, vec![32], [0, 0, 192, 127].repeat(32)))),
            &["model.norm.weight", "NaN", "element 0"],
        ),
        (
            "llama",
            |f| replace(f, "model.norm.weight", Some((Dtype::F16, vec![32], [0, 124].repeat(32)))),
            &["model.norm.weight", "inf"],
        ),
        (
            "qwen2",
            |f| fs::remove_file(f.join("model-00002-of-00002.safetensors")).unwrap(),
            &["model-00002-of-00002.safetensors"],
        ),
        (
            "qwen2",
            |f| truncate(f.join("model-00001-of-00002.safetensors"), 0.5),
            &["model-00001-of-00002.safetensors", "truncated"],
        ),
        (
            "qwen2",
            |f| edit(f, "model.safetensors.index.json", "model-00002-of-00002", "../../model"),
            &["model.safetensors.index.json", "file names"],
        ),
        (
            "qwen2",
            |f| fs::write(f.join("model.safetensors.index.json"), "{}").unwrap(),
            &["weight_map", "missing"],
        ),
        (
            "qwen2",
            |f| edit(f, "model.safetensors.index.json", "model-00002-of-00002", "model-00001-of-00002"),
            &["is missing in model-00001-of-00002.safetensors"],
        ),
        (
            "qwen2",
            |f| {
                let shard = |i| f.join(format!("model-0000{i}-of-00002.safetensors"));
                fs::copy(shard(1), shard(2)).unwrap();
            },
            &["model-00002-of-00002.safetensors", "another shard"],
        ),
    ];
    for (name, damage, words) in cases {
        let folder = copy(name);
        damage(folder.path());
        let error = load(folder.path(), &device()).map(|_| ()).expect_err(&words.join(", "));
        let message = error.to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
    }
    let message = load(Path::new("/nowhere/model"), &device()).map(|_| ()).unwrap_err().to_string();
    assert!(message.contains("/nowhere/model"), "{message}");
}

#[test]
fn an_output_matrix_beside_a_tied_embedding_is_ignored() {
    let folder = copy("llama");
    replace(folder.path(), "lm_head.weight", Some((Dtype::F32, vec![304, 32], vec![0; 304 * 32 * 4])));
    assert!(load(folder.path(), &device()).is_ok());
}

/// The file `llama.gguf` with changed metadata and without some tensor.
fn gguf(change: &[(&str, gguf_file::Value)], without: &str) -> Vec<u8> {
    edit_gguf(change, |tensors| drop(tensors.remove(without)))
}

fn edit_gguf(change: &[(&str, gguf_file::Value)], edit: impl Fn(&mut BTreeMap<String, QTensor>)) -> Vec<u8> {
    let mut original = Cursor::new(fs::read(path("llama.gguf")).unwrap());
    let content = gguf_file::Content::read(&mut original).unwrap();
    let mut metadata = content.metadata.clone();
    metadata.extend(change.iter().map(|(key, value)| (key.to_string(), value.clone())));
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let mut tensor = |name: &String| content.tensor(&mut original, name, &candle_core::Device::Cpu).unwrap();
    let mut tensors: BTreeMap<_, _> =
        content.tensor_infos.keys().map(|name| (name.clone(), tensor(name))).collect();
    edit(&mut tensors);
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut out = Cursor::new(Vec::new());
    gguf_file::write(&mut out, &metadata, &tensors).unwrap();
    out.into_inner()
}

/// One weight of the final norm replaced.
fn spoilt_norm(value: f32) -> Vec<u8> {
    edit_gguf(&[], |tensors| {
        let mut weights = [1.0; 32];
        weights[3] = value;
        let tensor = candle_core::Tensor::new(&weights, &candle_core::Device::Cpu).unwrap();
        tensors.insert("output_norm.weight".into(), QTensor::quantize(&tensor, GgmlDType::F32).unwrap());
    })
}

/// A tokenizer with one id more than the embedding has rows.
fn more_tokens() -> Vec<u8> {
    use gguf_file::Value::{Array, I32, String as Text};
    let mut original = Cursor::new(fs::read(path("llama.gguf")).unwrap());
    let metadata = gguf_file::Content::read(&mut original).unwrap().metadata;
    let change = [("tokenizer.ggml.tokens", Text("one more".into())), ("tokenizer.ggml.token_type", I32(1))];
    let change = change.map(|(key, value)| {
        let list = metadata[key].to_vec().unwrap().iter().cloned().chain([value]);
        (key, Array(list.collect()))
    });
    gguf(&change, "")
}

/// llama.cpp's converter divides frequencies of `500000^(-i/4)` by these for Llama 3.1.
#[test]
fn rotary_divisors_become_the_scaling_they_came_from() {
    use gguf_file::Value::F32;
    let read = |divisors: [f32; 4]| {
        let bytes = edit_gguf(&[("llama.rope.freq_base", F32(500_000.0))], |tensors| {
            let tensor = candle_core::Tensor::new(&divisors, &candle_core::Device::Cpu).unwrap();
            tensors.insert("rope_freqs.weight".into(), QTensor::quantize(&tensor, GgmlDType::F32).unwrap());
        });
        read_gguf(&bytes).map(|model| model.config.rope_scaling)
    };
    let wavelength = 2.0 * PI * 500_000_f64.sqrt();
    let smooth = (8192.0 / wavelength - 1.0) / 3.0;
    let blend = 1.0 / ((1.0 - smooth) / 8.0 + smooth);
    let llama3 = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_max_position_embeddings: 8192,
    };
    assert_eq!(read([1.0, 1.0, blend as f32, 8.0]), Ok(Some(llama3)));
    for other in [[1.0, 1.0, 4.0, 8.0], [0.0; 4], [f32::NAN; 4]] {
        let message = read(other).unwrap_err();
        assert!(message.contains("rope_freqs.weight"), "{message}");
    }
}

fn read_gguf(bytes: &[u8]) -> Result<LoadedModel, String> {
    LoadedModel::from_gguf("llama.gguf", Cursor::new(bytes), &device()).map_err(|error| error.to_string())
}

#[test]
fn damaged_gguf_files_are_refused_by_name() {
    use gguf_file::Value::{Array, F32, String as Text, U32};
    assert!(read_gguf(&gguf(&[], "")).is_ok());
    let cases: &[(Vec<u8>, &[&str])] = &[
        (
            gguf(&[("general.architecture", Text("gpt2".into()))], ""),
            &["general.architecture", "gpt2", "qwen3"],
        ),
        (gguf(&[("general.architecture", U32(3))], ""), &["general.architecture", "U32", "a string"]),
        (gguf(&[("general.alignment", U32(0))], ""), &["header is invalid"]),
        (gguf(&[("llama.attention.head_count", U32(0))], ""), &["num_attention_heads"]),
        (gguf(&[("llama.attention.head_count", U32(3))], ""), &["num_key_value_heads"]),
        (gguf(&[("llama.expert_count", U32(8))], ""), &["llama.expert_count", "8"]),
        (gguf(&[("llama.rope.scaling.type", Text("yarn".into()))], ""), &["rope.scaling.type", "yarn"]),
        (gguf(&[("llama.rope.dimension_count", U32(4))], ""), &["rope.dimension_count", "4"]),
        (gguf(&[("llama.rope.freq_base", F32(f32::NAN))], ""), &["rope_theta", "NaN"]),
        (gguf(&[("llama.feed_forward_length", U32(65))], ""), &["blk.0.ffn_gate.weight", "[65, 32]"]),
        (gguf(&[("tokenizer.ggml.model", Text("llama".into()))], ""), &["tokenizer.ggml.model", "llama"]),
        (gguf(&[("tokenizer.ggml.pre", Text("gpt-9".into()))], ""), &["tokenizer.ggml.pre", "gpt-9"]),
        (gguf(&[("tokenizer.ggml.token_type", Array(vec![U32(1)]))], ""), &["token_type", "304"]),
        (gguf(&[("tokenizer.ggml.merges", Array(vec![Text("x y z".into())]))], ""), &["llama.gguf"]),
        (gguf(&[("tokenizer.ggml.eos_token_id", U32(304))], ""), &["eos_token_id", "304"]),
        (gguf(&[], "token_embd.weight"), &["token_embd.weight", "missing"]),
        (gguf(&[], "blk.1.ffn_up.weight"), &["blk.1.ffn_up.weight", "missing"]),
        (spoilt_norm(f32::NAN), &["output_norm.weight", "NaN", "element 3"]),
        (spoilt_norm(f32::NEG_INFINITY), &["output_norm.weight", "-inf"]),
        (more_tokens(), &["llama.gguf", "tokenizer's ids reach 304", "304 rows"]),
        (b"GGUF".to_vec(), &["llama.gguf"]),
        (b"PK\x03\x04 not a GGUF file".to_vec(), &["llama.gguf", "magic"]),
    ];
    for (bytes, words) in cases {
        let message = read_gguf(bytes).map(|_| ()).expect_err(&words.join(", "));
        assert!(words.iter().all(|word| message.contains(word)), "{words:?}: {message}");
    }
}

#[test]
fn truncated_files_are_refused_wherever_they_end() {
    let bytes = fs::read(path("llama.gguf")).unwrap();
    for end in (0..bytes.len()).step_by(997) {
        let message = read_gguf(&bytes[..end]).map(|_| ()).expect_err("a part of a file");
        assert!(message.starts_with("llama.gguf: "), "{message}");
    }
    let bytes = fs::read(path("llama").join("model.safetensors")).unwrap();
    let folder = copy("llama");
    for end in (0..bytes.len()).step_by(997) {
        fs::write(folder.path().join("model.safetensors"), &bytes[..end]).unwrap();
        let message = load(folder.path(), &device()).map(|_| ()).expect_err("a part of a file").to_string();
        assert!(message.starts_with("model.safetensors: "), "{message}");
    }
}

/// Any byte may be wrong: the outcome is a model or an error.
#[test]
fn flipped_bytes_never_panic() {
    let whole = fs::read(path("llama.gguf")).unwrap();
    for at in (0..whole.len()).step_by(101) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        drop(read_gguf(&bytes));
    }
}
