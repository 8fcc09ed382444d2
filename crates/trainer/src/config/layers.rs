//! Merging the layers and refusing keys that nobody knows.

use super::AlgorithmConfig;
use super::error::ConfigError;
use super::presets::preset;
use super::tree::Config;
use serde_json::{Map, Value};
use std::path::Path;

/// A partial configuration and where it came from, for messages.
struct Layer {
    /// `FILE` or `command line`.
    origin: String,
    /// The text, when there is one to find a key's line in.
    text: Option<String>,
    values: Map<String, Value>,
}

impl Config {
    /// Defaults, preset, file and overrides, merged and validated.
    ///
    /// # Errors
    /// A file that cannot be read or parsed, an unknown key (with the nearest known one), a value of the wrong
    /// type or outside its range; the message names file, line and key.
    pub fn load(file: Option<&Path>, overrides: &[String]) -> Result<Self, ConfigError> {
        let mut layers = Vec::new();
        if let Some(path) = file {
            layers.push(Layer::read(path)?);
        }
        layers.push(Layer::command_line(overrides)?);
        let defaults = serde_json::to_value(Config::default()).expect("defaults are plain data");
        for layer in &layers {
            layer.refuse_unknown_keys(&defaults)?;
        }

        let mut merged = defaults;
        let name = algorithm(&layers)?.name;
        merge(&mut merged, Value::Object(parse(preset(name), "preset")?));
        for layer in layers {
            // Checked layer by layer so that a wrong type is blamed on the layer that holds it.
            merge(&mut merged, Value::Object(layer.values.clone()));
            layer.check_types(&merged)?;
        }
        let config: Config = serde_json::from_value(merged).expect("each layer's types were checked");
        config.validate()?;
        Ok(config)
    }
}

/// The algorithm group before its preset is known.
fn algorithm(layers: &[Layer]) -> Result<AlgorithmConfig, ConfigError> {
    let mut group = Value::Object(Map::new());
    for layer in layers {
        if let Some(values) = layer.values.get("algorithm") {
            merge(&mut group, values.clone());
            let path = |e: &serde_path_to_error::Error<_>| format!("algorithm.{}", e.path());
            serde_path_to_error::deserialize::<_, AlgorithmConfig>(group.clone())
                .map_err(|e| layer.blame(path(&e), e.into_inner()))?;
        }
    }
    Ok(serde_json::from_value(group).expect("checked above"))
}

impl Layer {
    fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
        let origin = path.display().to_string();
        let values = parse(&text, &origin)?;
        Ok(Self { origin, text: Some(text), values })
    }

    /// `a.b=value` words; a value that is not TOML is taken as a string, as Hydra does.
    fn command_line(words: &[String]) -> Result<Self, ConfigError> {
        let origin = "command line".to_string();
        let mut values = Value::Object(Map::new());
        for word in words {
            let malformed = || ConfigError::Override { word: word.clone() };
            let (key, value) = word.split_once('=').ok_or_else(malformed)?;
            if key.is_empty() || key.split('.').any(str::is_empty) {
                return Err(malformed());
            }
            let value = toml::from_str::<Map<String, Value>>(&format!("value = {value}"))
                .ok()
                .and_then(|mut table| table.remove("value"))
                .unwrap_or_else(|| Value::String(value.to_string()));
            let nested = key
                .rsplit('.')
                .fold(value, |inner, part| Value::Object(Map::from_iter([(part.to_string(), inner)])));
            merge(&mut values, nested);
        }
        let Value::Object(values) = values else { unreachable!("merging objects gives an object") };
        Ok(Self { origin, text: None, values })
    }

    fn refuse_unknown_keys(&self, defaults: &Value) -> Result<(), ConfigError> {
        let known = paths(defaults);
        let given = Value::Object(self.values.clone());
        let Some(key) = unknown_key(&given, defaults, "") else { return Ok(()) };
        let nearest = nearest(&key, &known);
        Err(ConfigError::UnknownKey { origin: self.place(&key), key, nearest })
    }

    fn check_types(&self, merged: &Value) -> Result<(), ConfigError> {
        serde_path_to_error::deserialize::<_, Config>(merged.clone())
            .map(|_| ())
            .map_err(|e| self.blame(e.path().to_string(), e.into_inner()))
    }

    fn blame(&self, key: String, error: serde_json::Error) -> ConfigError {
        ConfigError::Value { origin: self.place(&key), key, message: error.to_string() }
    }

    /// `FILE:LINE` where the key stands in a file, else the layer's name.
    fn place(&self, key: &str) -> String {
        let line = self.text.as_deref().and_then(|text| line_of(text, key));
        line.map_or_else(|| self.origin.clone(), |line| format!("{}:{line}", self.origin))
    }
}

fn parse(text: &str, origin: &str) -> Result<Map<String, Value>, ConfigError> {
    toml::from_str(text)
        .map_err(|e| ConfigError::Syntax { origin: origin.to_string(), message: e.to_string() })
}

/// Lays `over` onto `base`: tables key by key, everything else whole.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_string() } else { format!("{prefix}.{key}") }
}

/// The dotted paths of a tree, tables included.
fn paths(tree: &Value) -> Vec<String> {
    fn walk(value: &Value, prefix: &str, into: &mut Vec<String>) {
        for (key, value) in value.as_object().into_iter().flatten() {
            let path = join(prefix, key);
            walk(value, &path, into);
            into.push(path);
        }
    }
    let mut into = Vec::new();
    walk(tree, "", &mut into);
    into
}

fn unknown_key(given: &Value, known: &Value, prefix: &str) -> Option<String> {
    given.as_object()?.iter().find_map(|(key, value)| {
        let path = join(prefix, key);
        match known.get(key) {
            None => Some(path),
            Some(known) if known.is_object() => unknown_key(value, known, &path),
            Some(_) => None,
        }
    })
}

/// The known key that a typist most likely meant: by the whole path, or by the last word in another group.
fn nearest(key: &str, known: &[String]) -> Option<String> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_string();
    let likeness = |candidate: &String| {
        let whole = strsim::normalized_damerau_levenshtein(key, candidate);
        let word = strsim::normalized_damerau_levenshtein(&last(key), &last(candidate));
        whole.max(0.95 * word)
    };
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) > 0.6).then(|| best.clone())
}

/// The 1-based line on which a dotted key is set in a TOML text.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let table = toml::de::DeTable::parse(text).ok()?;
    let mut table = table.get_ref();
    let mut start = None;
    for part in key.split('.') {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref().as_ref() == part)?;
        start = Some(name.span().start);
        match value.get_ref() {
            toml::de::DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    Some(text[..start?].matches('\n').count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AdvantageKind, AlgorithmName};

    fn load(text: &str, words: &[&str]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.toml");
        std::fs::write(&file, text).unwrap();
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let config = Config::load(Some(&file), &words);
        config.map_err(|e| e.to_string().replace(&file.display().to_string(), "run.toml"))
    }

    #[test]
    fn later_layers_win() {
        assert_eq!(load("", &[]).unwrap(), Config::default());
        let config = load("rollout.group_size = 7\nretriever.topk = 4", &["rollout.group_size=9"]).unwrap();
        assert_eq!((config.rollout.group_size, config.retriever.topk), (9, 4));
        let config = load("algorithm.name = 'dr_grpo'", &[]).unwrap();
        assert_eq!(config.algorithm.advantage, AdvantageKind::DrGrpo);
        assert_eq!(config.probe.probability, 0.0);
        let config = load("algorithm.name = 'grpo'\nprobe.probability = 0.5", &[]).unwrap();
        assert_eq!(config.probe.probability, 0.5, "the file wins over its preset");
        let config = load("algorithm.name = 'grpo'", &["algorithm.name=rex"]).unwrap();
        assert_eq!(config.algorithm.name, AlgorithmName::Rex);
        assert_eq!(config.probe.probability, 0.2, "only the last name's preset counts");
    }

    #[test]
    fn override_words() {
        let check = |word: &str, expected: fn(&Config) -> bool| {
            assert!(expected(&load("", &[word]).unwrap()), "{word}");
        };
        check("retriever.url=http://a:1", |config| config.retriever.url == ["http://a:1"]);
        check("retriever.url=[\"http://a\", \"http://b\"]", |config| config.retriever.url.len() == 2);
        check("optimizer.lr=1", |config| config.optimizer.lr == 1.0);
        check("optimizer.lr=3e-4", |config| config.optimizer.lr == 3e-4);
        check("model.path=some/where", |config| config.model.path.as_os_str() == "some/where");
        check("data.train_files=[\"a\", \"b\"]", |config| config.data.train_files.len() == 2);
        check("algorithm.clip_ratio_c=3.0", |config| config.algorithm.clip_ratio_c == Some(3.0));
        check("algorithm.kl_loss_type=low_var_kl", |config| {
            config.algorithm.kl_loss_type == rex_grpo::Kl::K3
        });
        check("data.prompt=a = {question}", |config| config.data.prompt == "a = {question}");
    }

    #[test]
    fn what_is_printed_is_read_back() {
        for name in ["rex", "grpo", "dapo", "dr_grpo", "rloo", "reinforce", "gspo", "cispo"] {
            let config = load("", &[&format!("algorithm.name={name}")]).unwrap();
            assert_eq!(load(&toml::to_string(&config).unwrap(), &[]).unwrap(), config, "{name}");
        }
    }

    #[test]
    fn messages() {
        let check = |text: &str, words: &[&str], expected: &str| {
            assert_eq!(load(text, words).unwrap_err(), expected, "{text} {words:?}");
        };
        check(
            "[rollout]\n\ngroup_sise = 5",
            &[],
            "run.toml:3: unknown key `rollout.group_sise`; did you mean `rollout.group_size`?",
        );
        check(
            "",
            &["group_size=5"],
            "command line: unknown key `group_size`; did you mean `rollout.group_size`?",
        );
        check("x.y = 1", &[], "run.toml:1: unknown key `x`; `rex train --print-config` lists every key");
        check(
            "\nretriever = { topk = 'three' }",
            &[],
            "run.toml:2: `retriever.topk`: invalid type: string \"three\", expected usize",
        );
        check("", &["probe.probability=2"], "`probe.probability` = 2: must lie in 0..=1");
        check("", &["topk"], "`topk` is not an override: write key=value, for example rollout.group_size=5");
    }
}
