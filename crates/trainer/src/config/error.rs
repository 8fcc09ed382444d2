use std::path::PathBuf;

/// What can be wrong with an experiment file or an override, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: cannot read the configuration: {source}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{origin}: not valid TOML: {message}")]
    Syntax { origin: String, message: String },
    #[error("{origin}: unknown key `{key}`{}", suggest(nearest))]
    UnknownKey { origin: String, key: String, nearest: Option<String> },
    #[error("{origin}: `{key}`: {message}")]
    Value { origin: String, key: String, message: String },
    #[error("`{word}` is not an override: write key=value, for example rollout.group_size=5")]
    Override { word: String },
    #[error("`{key}` = {value}: {rule}")]
    Rule { key: &'static str, value: String, rule: &'static str },
}

fn suggest(nearest: &Option<String>) -> String {
    match nearest {
        Some(key) => format!("; did you mean `{key}`?"),
        None => "; `rex train --print-config` lists every key".to_string(),
    }
}
