//! Token ids equal those of the tokenizers library in Python, from `tokenizer.json` and from GGUF metadata.

mod fixtures;

use std::fs;

use burn::tensor::Device;
use fixtures::{FOLDERS, cases, path};
use rex_model::{Tokenizer, load};
use serde_json::{Value, json};

fn check(name: &str, tokenizer: &Tokenizer) {
    for case in cases(&format!("{name}/texts.json")) {
        let ids = |field: &str| -> Vec<u32> { serde_json::from_value(case[field].clone()).unwrap() };
        let text = case["text"].as_str().unwrap();
        assert_eq!(tokenizer.encode(text), ids("ids"), "{name}: {text:?}");
        assert_eq!(tokenizer.encode_text(text), ids("ids_as_text"), "{name}: {text:?}");
        assert_eq!(tokenizer.decode(&ids("ids")), case["decoded"].as_str().unwrap(), "{name}");
    }
}

#[test]
fn ids_equal_those_recorded() {
    for name in FOLDERS {
        let tokenizer = Tokenizer::from_bytes(&fs::read(path(name).join("tokenizer.json")).unwrap()).unwrap();
        check(name, &tokenizer);
        check(name, &Tokenizer::from_bytes(tokenizer.to_json().as_bytes()).unwrap());
    }
}

#[test]
fn a_tokenizer_in_gguf_metadata_is_the_one_it_came_from() {
    for name in ["llama", "qwen2"] {
        let model = load(&path(&format!("{name}.gguf")), &Device::flex()).unwrap();
        check(name, &model.tokenizer);
        assert_eq!(model.tokenizer.vocab_size(), 303, "the padding of the embedding is no token");
        assert_eq!(model.config.eos_token_ids, [302, 300]);
        assert_eq!(model.chat_template.as_deref(), Some("{{ messages }}"));
    }
}

#[test]
fn special_tokens_count_only_where_the_text_is_trusted() {
    let tokenizer = Tokenizer::from_bytes(&fs::read(path("llama").join("tokenizer.json")).unwrap()).unwrap();
    let end = tokenizer.token_id("<|im_end|>").unwrap();
    let text = "a<|im_end|>b";
    assert!(tokenizer.encode(text).contains(&end));
    assert!(!tokenizer.encode_text(text).contains(&end));
    assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
    assert_eq!(tokenizer.decode(&tokenizer.encode_text(text)), text);
    assert_eq!(tokenizer.decode(&[end, 9_999, u32::MAX]), "<|im_end|>");
    let emoji = tokenizer.encode_text("👩");
    assert_eq!(tokenizer.decode(&emoji[..1]), "\u{fffd}");
}

/// A tokenizer of words, with changes.
fn words(change: impl Fn(&mut Value)) -> Vec<u8> {
    let mut json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": null, "decoder": null,
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "a": 1, "b": 7}, "unk_token": "[UNK]"},
    });
    change(&mut json);
    json.to_string().into_bytes()
}

#[test]
fn nothing_is_added_or_cut() {
    let tokenizer = Tokenizer::from_bytes(&words(|json| {
        json["truncation"] =
            json!({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0});
        json["padding"] = json!({"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[UNK]"});
        json["post_processor"] = json!({"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[UNK]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [], "special_tokens": {"[UNK]": {"id": "[UNK]", "ids": [0], "tokens": ["[UNK]"]}}});
    }))
    .unwrap();
    assert_eq!(tokenizer.encode("a b zzz"), [1, 7, 0]);
    assert_eq!(tokenizer.vocab_size(), 8, "one more than the largest id");
}

#[test]
fn a_tokenizer_that_cannot_serve_is_refused() {
    let whole = words(|_| ());
    for (bytes, word) in [
        (Vec::new(), "tokenizer.json"),
        (b"{}".to_vec(), "tokenizer.json"),
        (b"\xff\xfe".to_vec(), "tokenizer.json"),
        (whole[..whole.len() / 2].to_vec(), "tokenizer.json"),
        (words(|json| json["model"]["vocab"] = json!({})), "empty"),
        (words(|json| json["model"]["unk_token"] = json!("[NONE]")), "unknown token"),
    ] {
        let message = Tokenizer::from_bytes(&bytes).unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}
