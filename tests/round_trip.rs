//! What is exported is what was trained: read back by Rex, and by transformers and PEFT where `REX_PYTHON` names a Python that has
//! them.

#[path = "fixtures/tiny.rs"]
mod tiny;

use burn::tensor::{Device, Int, Tensor, TensorData};
use rex_model::{Decoder, Lora, load, load_adapter};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const IDS: [u32; 9] = [3, 17, 8, 20, 1, 11, 14, 2, 9];
const TOLERANCE: f32 = 1e-4;

fn rex(words: &[String]) {
    let output = Command::new(env!("CARGO_BIN_EXE_rex")).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn words(text: &[&str], paths: &[(&str, &Path)]) -> Vec<String> {
    let paths = paths.iter().map(|(before, path)| format!("{before}{}", path.display()));
    text.iter().map(|word| word.to_string()).chain(paths).collect()
}

fn logits(decoder: &Decoder) -> Vec<f32> {
    let ids: Vec<i32> = IDS.iter().map(|&id| id as i32).collect();
    let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [1, IDS.len()]), &decoder.device());
    let hidden = decoder.forward(ids, None);
    let [_, width, features] = hidden.dims();
    decoder.logits(hidden.reshape([width, features])).into_data().try_to_vec().unwrap()
}

fn difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Two steps of supervised training, which move every weight or every adapter.
fn train(config: &Path, folder: &Path, base: &Path, name: &str, more: &[&str]) -> PathBuf {
    let (run, data) = (folder.join(name), folder.join("transcripts.jsonl"));
    let row = json!({"segments": [
        {"author": "prompt", "text": "who is king of ur"}, {"author": "model", "text": "<answer> red </answer> <end>"},
    ]});
    fs::write(&data, format!("{row}\n{row}\n")).unwrap();
    let fixed = [
        "sft",
        "--quiet",
        "trainer.total_steps=2",
        "data.train_batch_size=2",
        "data.val_files=[]",
        "optimizer.lr=0.02",
    ];
    let mut all = words(&fixed, &[("--config=", config), ("model.path=", base), ("trainer.run_dir=", &run)]);
    all.push(format!("data.train_files=[\"{}\"]", data.display()));
    all.extend(more.iter().map(|word| word.to_string()));
    rex(&all);
    run
}

fn export(run: &Path, more: &[&str]) -> PathBuf {
    let out = run.with_added_extension(format!("export{}", more.len()));
    rex(&[words(&["export", "--quiet"], &[("--out=", &out), ("", run)]), words(more, &[])].concat());
    assert!(fs::read_to_string(out.join("README.md")).unwrap().starts_with("---\nlibrary_name: "));
    out
}

/// An export, and the logits that transformers must find in it.
struct Exported {
    model: PathBuf,
    adapter: Option<PathBuf>,
    logits: Vec<f32>,
}

/// A model trained whole, and by adapters that are exported merged and apart.
fn exports(config: &Path, folder: &Path, name: &str, base: &Path) -> [Exported; 3] {
    let device = Device::flex();
    let before = logits(&load(base, &device).unwrap().decoder);
    let checkpoint = |run: &Path| load(&run.join("checkpoints/step-2"), &device).unwrap();

    let run = train(config, folder, base, &format!("{name}-full"), &[]);
    let model = export(&run, &[]);
    let read = load(&model, &device).unwrap();
    let full = logits(&read.decoder);
    assert_eq!(full, logits(&checkpoint(&run).decoder), "{name}");
    assert!(difference(&full, &before) > 0.01, "{name}: nothing was learnt");
    assert_eq!(read.config, load(base, &device).unwrap().config, "{name}");
    let full = Exported { model, adapter: None, logits: full };

    let run =
        train(config, folder, base, &format!("{name}-lora"), &["model.lora_rank=2", "model.lora_alpha=4"]);
    let (model, adapter) = (export(&run, &[]), export(&run, &["--adapter"]));
    let merged = logits(&load(&model, &device).unwrap().decoder);
    assert_eq!(merged, logits(&checkpoint(&run).decoder), "{name}");
    assert!(difference(&merged, &before) > 0.01, "{name}: nothing was learnt");
    let lora = Lora { rank: 2, alpha: 4.0, target_modules: Lora::MODULES.map(String::from).to_vec() };
    let decoder = load(base, &device).unwrap().decoder.with_adapters(&lora, 7);
    let apart = logits(&load_adapter(&adapter, decoder).unwrap());
    assert!(difference(&apart, &merged) < 1e-5, "{name}: {}", difference(&apart, &merged));
    let settings: Value =
        serde_json::from_str(&fs::read_to_string(adapter.join("adapter_config.json")).unwrap()).unwrap();
    assert_eq!(settings["base_model_name_or_path"], json!(base.display().to_string()));
    let merged = Exported { model, adapter: None, logits: merged };
    let apart = Exported { model: base.to_path_buf(), adapter: Some(adapter), logits: apart };
    [full, merged, apart]
}

#[test]
fn exports_come_back_as_they_were_trained() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 32);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/model/tests/fixtures");
    // Tied, untied with biases and in shards, and with norms of queries and keys.
    let bases = [
        ("llama", folder.path().join("model")),
        ("qwen2", fixtures.join("qwen2")),
        ("qwen3", fixtures.join("qwen3")),
    ];
    let exported: Vec<(&str, Exported)> = bases
        .iter()
        .flat_map(|(name, base)| {
            exports(&config, folder.path(), name, base).map(|exported| (*name, exported))
        })
        .collect();

    let Some(python) = std::env::var_os("REX_PYTHON") else {
        println!("REX_PYTHON is not set: not compared with transformers");
        return;
    };
    let cases: Vec<Value> = exported
        .iter()
        .map(|(_, Exported { model, adapter, .. })| json!({"model": model, "adapter": adapter, "ids": IDS}))
        .collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/round_trip.py");
    let mut command = Command::new(python);
    command.arg(script).env("HF_HUB_OFFLINE", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    serde_json::to_writer(child.stdin.take().unwrap(), &cases).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let theirs: Vec<Vec<f32>> = serde_json::from_slice(&output.stdout).unwrap();
    for ((name, exported), theirs) in exported.iter().zip(&theirs) {
        let worst = difference(&exported.logits, theirs);
        let kind = if exported.adapter.is_some() { "adapter" } else { "model" };
        println!("{name}, {kind}: logits differ by up to {worst:.1e}");
        assert!(worst <= TOLERANCE, "{name}, {kind}: logits differ by {worst}");
    }
}
