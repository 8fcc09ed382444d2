use crate::config::ConfigError;
use std::path::PathBuf;

/// Why a run cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("{} already holds a run: go on with it by --resume, or name another trainer.run_dir", path.display())]
    RunExists { path: PathBuf },
    #[error("{}: another process is training in it: wait for it, or stop it", path.display())]
    Busy { path: PathBuf },
    #[error("{} holds no run to resume: start one without --resume", path.display())]
    NoRun { path: PathBuf },
    #[error(
        "{} is no run: it holds neither config.toml nor metrics.jsonl; name the folder that trainer.run_dir named",
        path.display()
    )]
    NothingToReport { path: PathBuf },
    #[error("`{key}` differs from {}: a resumed run keeps its configuration; start a new trainer.run_dir", path.display())]
    ConfigChanged { path: PathBuf, key: String },
    #[error("{}: not a usable checkpoint: {message}", path.display())]
    Checkpoint { path: PathBuf, message: String },
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    #[error(transparent)]
    World(#[from] crate::hopworld::WorldError),
    #[error(
        "{stage}: {steps} steps did not reach the accuracy {wanted}: try another trainer.seed, or more steps"
    )]
    NotLearnt { stage: &'static str, steps: usize, wanted: f64 },
    #[error(transparent)]
    Model(#[from] rex_model::WeightsError),
    #[error(transparent)]
    Hub(#[from] crate::hub::HubError),
    #[error(transparent)]
    Retrieval(#[from] rex_rollout::RetrievalError),
    #[error(transparent)]
    Index(#[from] rex_rollout::retrieval::IndexError),
    #[error("too many answers to look for in the corpus: {0}")]
    Answers(aho_corasick::BuildError),
    #[error(transparent)]
    Pool(#[from] rex_rollout::PoolError),
    #[error("`model.precision`: {message}")]
    Precision { message: &'static str },
    #[error(
        "process {rank} has another {what} than process 0: every machine needs the same files and the same command"
    )]
    Apart { what: &'static str, rank: usize },
    #[error("`{key}` is not set: {hint}")]
    Missing { key: &'static str, hint: &'static str },
    #[error("question `{id}`: its prompt has {tokens} tokens, more than rollout.max_start_length = {limit}")]
    LongPrompt { id: String, tokens: usize, limit: usize },
    #[error("question `{id}`: its prompt has no tokens: write more into data.prompt than {{question}}")]
    EmptyPrompt { id: String },
}
