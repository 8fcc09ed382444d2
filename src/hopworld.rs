//! The embedded default: Hopworld's configurations, model and data, as ordinary files.
//!
//! A command without `--config` takes `configs/NAME` where there is one, which is so in a checkout of Rex. Anywhere else it
//! takes `hopworld/NAME`, and unpacks that folder once, so that everything it trains on can be looked at and changed.

use anyhow::{Context, Result};
use rex_trainer::run_dir::replace_file;
use std::fs;
use std::path::{Path, PathBuf};

/// The default of `rex train` and of every command that uses a trained model.
pub const TRAIN: &str = "hopworld.toml";
/// The default of `rex sft`.
pub const SFT: &str = "hopworld-sft.toml";

/// The files under `assets/hopworld`.
const FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/hopworld.rs"));
const CONFIGS: &[(&str, &str)] =
    &[(TRAIN, include_str!("../configs/hopworld.toml")), (SFT, include_str!("../configs/hopworld-sft.toml"))];

/// The default configuration called `name`, unpacked if need be.
pub fn configuration(name: &str) -> Result<PathBuf> {
    let here = Path::new("configs").join(name);
    if here.exists() {
        return Ok(here);
    }
    let folder = Path::new("hopworld");
    if CONFIGS.iter().any(|(config, _)| !folder.join(config).exists()) {
        unpack(folder).with_context(|| {
            format!(
                "unpacking the default into {} (name a configuration by --config to do without)",
                folder.display()
            )
        })?;
        eprintln!(
            "Unpacked the default, Hopworld, into {}/: model, questions, corpora, configurations.",
            folder.display()
        );
    }
    Ok(folder.join(name))
}

/// Files that are there already are left as they are: they may have been changed.
fn unpack(folder: &Path) -> Result<()> {
    for (name, bytes) in FILES {
        place(&folder.join(name), bytes)?;
    }
    // Last: where they are, the rest is, too.
    for (name, text) in CONFIGS {
        place(
            &folder.join(name),
            text.replace("assets/hopworld", "hopworld").replace("configs/", "hopworld/").as_bytes(),
        )?;
    }
    Ok(())
}

fn place(file: &Path, bytes: &[u8]) -> Result<()> {
    if !file.exists() {
        let folder = file.parent().expect("a file in a folder");
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        replace_file(file, bytes)?;
    }
    Ok(())
}
