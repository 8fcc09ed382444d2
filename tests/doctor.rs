//! `rex doctor` tells of every back end of the build: its devices, or why there are none; and a device that cannot be had is one
//! clear message.

use serde_json::Value;
use std::process::{Command, Output};

fn rex(words: &[&str]) -> Output {
    // Where drivers are looked for there are none.
    let nowhere = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "__EGL_VENDOR_LIBRARY_FILENAMES"];
    let nowhere = nowhere.map(|variable| (variable, "/nonexistent"));
    Command::new(env!("CARGO_BIN_EXE_rex")).args(words).envs(nowhere).output().unwrap()
}

fn back_ends() -> Vec<Value> {
    let output = rex(&["doctor", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["back_ends"].as_array().unwrap().clone()
}

#[test]
fn every_back_end_has_devices_or_a_reason() {
    let back_ends = back_ends();
    assert!(!back_ends.is_empty());
    for back_end in back_ends {
        let devices = back_end["devices"].as_array().unwrap();
        assert_eq!(devices.is_empty(), back_end["error"].is_string(), "{back_end}");
        for device in devices {
            assert!(device["precisions"].as_array().unwrap().contains(&"f32".into()), "{device}");
        }
    }
    let text = rex(&["doctor"]);
    assert!(text.status.success() && !text.stdout.is_empty());
}

#[test]
fn a_device_that_is_not_there_is_named() {
    for back_end in back_ends().iter().filter(|back_end| back_end["error"].is_string()) {
        let name = back_end["name"].as_str().unwrap();
        let output = rex(&["train", "--device", name]);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains("nstall") && !message.contains("panicked"), "{message}");
        println!("{message}");
    }
}
