//! Checkpoints: a Hugging Face folder plus `state/`, and `adapter/` where adapters are trained, written aside and renamed, so that a crash at any moment leaves
//! the last good one.

use crate::config::ModelConfig;
use crate::error::TrainError;
use crate::hub::HubId;
use crate::run_dir::{RunDir, sync_folder};
use burn::optim::OptimizerRecord;
use rex_grpo::KeepRatio;
use rex_learner::Optimizer;
use rex_model::{Decoder, LoadedModel, Precision};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// All that a run carries from step to step beside weights and optimizer: random streams are named by (seed, step,
/// …), so the step number is their state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Steps done.
    pub step: usize,
    /// Questions drawn so far.
    pub questions: usize,
    /// Steps skipped for a loss or gradient that was not finite.
    pub skipped: usize,
    pub keep_ratio: KeepRatio,
}

/// The size at which transformers splits its checkpoints.
const SHARD_BYTES: usize = 5_000_000_000;
const STATE: &str = "state";
/// A PEFT folder; the weights beside it have the adapters merged in.
pub const ADAPTER: &str = "adapter";
const OPTIMIZER: &str = "state/optimizer.bpk";
const PROGRESS: &str = "state/progress.json";

/// What is saved of a model.
#[derive(Clone, Copy)]
pub struct Weights<'a> {
    pub model: &'a LoadedModel,
    /// Where the model began, and its adapters.
    pub config: &'a ModelConfig,
}

/// Writes `checkpoints/step-N` and deletes the oldest beyond `keep`.
///
/// # Errors
/// The file system's or the model writer's, with the path; the earlier checkpoints are left as they are.
pub fn save(
    run: &RunDir,
    weights: Weights<'_>,
    optimizer: &Optimizer,
    step: usize,
    progress: &impl Serialize,
    keep: usize,
) -> Result<PathBuf, TrainError> {
    let folder = run.checkpoints().join(format!("step-{step}"));
    let aside = run.checkpoints().join(format!(".step-{step}.partial"));
    let io = |source| TrainError::Io { path: aside.clone(), source };
    remove_if_there(&aside)?;
    fs::create_dir_all(aside.join(STATE)).map_err(io)?;
    let Weights { model, config } = weights;
    model.save(&aside, Precision::F32, SHARD_BYTES)?;
    if let Some(lora) = config.lora() {
        let path = config.path.display().to_string();
        let (base, revision) = match HubId::of(&config.path) {
            Some(id) => (id.repository, id.revision),
            None => (path.as_str(), None),
        };
        rex_model::save_adapter(&aside.join(ADAPTER), &model.decoder, &lora, base, revision)?;
    }
    let optimizer_file = aside.join(OPTIMIZER);
    // Straight into the file: as bytes it would be in memory twice.
    optimizer.state().to_record().save(&optimizer_file).map_err(|e| broken(&optimizer_file, e))?;
    let progress_json = serde_json::to_vec_pretty(progress).expect("plain data");
    fs::write(aside.join(PROGRESS), progress_json).map_err(io)?;
    sync_all(&aside).map_err(io)?;
    remove_if_there(&folder)?;
    fs::rename(&aside, &folder).and_then(|()| sync_folder(&folder)).map_err(io)?;
    let all = list(run)?;
    for (_, old) in &all[..all.len().saturating_sub(keep)] {
        remove_if_there(old)?;
    }
    Ok(folder)
}

/// The newest checkpoint of a run.
///
/// # Errors
/// The file system's, with the path.
pub fn latest(run: &RunDir) -> Result<Option<PathBuf>, TrainError> {
    Ok(list(run)?.pop().map(|(_, folder)| folder))
}

/// The step after which a checkpoint was written.
pub fn step(folder: &Path) -> Option<usize> {
    folder.file_name()?.to_str()?.strip_prefix("step-")?.parse().ok()
}

/// The progress that a checkpoint holds; its model is an ordinary model folder.
///
/// # Errors
/// [`TrainError::Checkpoint`] for a file that is missing or broken.
pub fn load_progress<P: DeserializeOwned>(folder: &Path) -> Result<P, TrainError> {
    let file = folder.join(PROGRESS);
    let text = fs::read_to_string(&file).map_err(|e| broken(&file, e))?;
    serde_json::from_str(&text).map_err(|e| broken(&file, e))
}

/// Fills a decoder's adapters from a checkpoint.
///
/// # Errors
/// A file that is missing, broken, or of other adapters.
pub fn load_adapter(folder: &Path, decoder: Decoder) -> Result<Decoder, TrainError> {
    Ok(rex_model::load_adapter(&folder.join(ADAPTER), decoder)?)
}

/// Restores the optimizer's moments from a checkpoint.
///
/// # Errors
/// [`TrainError::Checkpoint`] for a file that is missing or broken.
pub fn load_optimizer(folder: &Path, optimizer: &mut Optimizer) -> Result<(), TrainError> {
    let file = folder.join(OPTIMIZER);
    optimizer.restore(OptimizerRecord::load(&file).map_err(|e| broken(&file, e))?);
    Ok(())
}

fn broken(path: &Path, error: impl std::fmt::Display) -> TrainError {
    TrainError::Checkpoint { path: path.to_path_buf(), message: error.to_string() }
}

/// Finished checkpoints, oldest first.
fn list(run: &RunDir) -> Result<Vec<(usize, PathBuf)>, TrainError> {
    let root = run.checkpoints();
    let io = |source| TrainError::Io { path: root.clone(), source };
    let entries = match fs::read_dir(&root) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        found.extend(step(&entry.path()).map(|step| (step, entry.path())));
    }
    found.sort();
    Ok(found)
}

fn remove_if_there(folder: &Path) -> Result<(), TrainError> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(TrainError::Io { path: folder.to_path_buf(), source: e })
        }
        _ => Ok(()),
    }
}

fn sync_all(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { sync_all(&path)? } else { File::open(&path)?.sync_all()? }
    }
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}
