//! Sentence encoders compute what transformers computes, whatever company a text has.

mod fixtures;

use burn::tensor::Device;
use fixtures::path;
use rex_model::{SentenceEncoder, TextKind};
use safetensors::SafeTensors;
use std::fs;
use std::path::Path;

fn texts(name: &str) -> Vec<String> {
    serde_json::from_slice(&fs::read(path(name)).unwrap()).unwrap()
}

/// Encodes the texts together and compares their vectors with the recorded ones, which were made one by one.
fn check(folder: &Path, texts: &[String], expected: &str) {
    let encoder = SentenceEncoder::load(folder, &Device::flex()).unwrap();
    let bytes = fs::read(path(expected)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let expected = file.tensor("vectors").unwrap();
    assert_eq!(expected.shape(), [texts.len(), encoder.dim()]);
    let words = expected.data().chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().unwrap()));
    let expected: Vec<f32> = words.collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = encoder.encode(&texts, TextKind::Passage);
    let mut worst: f32 = 0.0;
    for ((text, found), expected) in texts.iter().zip(&found).zip(expected.chunks_exact(encoder.dim())) {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let cosine = dot(found, expected) / (dot(found, found) * dot(expected, expected)).sqrt();
        assert!((dot(found, found) - 1.0).abs() < 1e-4, "{text:?}: not of length 1");
        assert!((1.0 - cosine).abs() < 1e-4, "{text:?}: cosine {cosine}");
        worst = worst.max((1.0 - cosine).abs());
    }
    println!("{}: cosines differ from 1 by at most {worst:.1e}", folder.display());
}

#[test]
fn vectors_equal_those_of_transformers() {
    check(&path("bert"), &texts("bert/texts.json"), "bert/expected.safetensors");
}

/// all-MiniLM-L6-v2, in the folder that REX_MINILM names; `scripts/minilm` fetches it.
#[test]
fn minilms_vectors_equal_those_of_transformers() {
    match std::env::var_os("REX_MINILM") {
        Some(folder) => check(Path::new(&folder), &texts("minilm.json"), "minilm.safetensors"),
        None => println!("REX_MINILM is not set: skipped"),
    }
}

#[test]
fn company_does_not_matter() {
    let encoder = SentenceEncoder::load(&path("bert"), &Device::flex()).unwrap();
    let texts = texts("bert/texts.json");
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = encoder.encode(&texts, TextKind::Query);
    for (text, together) in texts.iter().zip(&together) {
        let alone = &encoder.encode(&[text], TextKind::Query)[0];
        let distance = alone.iter().zip(together).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(distance < 1e-5, "{text:?}: {distance}");
    }
    assert!(encoder.encode(&[], TextKind::Query).is_empty());
    let many: Vec<&str> = texts.iter().copied().cycle().take(1000).collect();
    assert_eq!(encoder.encode(&many, TextKind::Query).len(), 1000);
}

#[test]
fn damaged_folders_are_messages() {
    let folder = tempfile::tempdir().unwrap();
    let copy = |name: &str| fs::copy(path("bert").join(name), folder.path().join(name)).unwrap();
    let check = |expected: &str| {
        let error = SentenceEncoder::load(folder.path(), &Device::flex()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("no model here");
    copy("config.json");
    check("no model here");
    copy("tokenizer.json");
    check("model.safetensors");
    copy("model.safetensors");
    SentenceEncoder::load(folder.path(), &Device::flex()).unwrap();
    let config = fs::read_to_string(path("bert/config.json")).unwrap();
    fs::write(
        folder.path().join("config.json"),
        config.replace("\"hidden_size\": 24", "\"hidden_size\": 48"),
    )
    .unwrap();
    check("has shape");
}
