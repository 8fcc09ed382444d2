//! The model card of an export: a `README.md` as the Hugging Face Hub reads it, from a run's configuration and metrics.

use crate::checkpoint;
use crate::config::Config;
use crate::error::TrainError;
use crate::evaluate::ALL;
use crate::history::History;
use crate::hub::HubId;
use crate::quantity::{count, duration};
use crate::run_dir::RunDir;
use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TEMPLATE: &str = include_str!("card.md");

#[derive(Serialize)]
struct Card<'r> {
    name: String,
    library: &'static str,
    relation: &'static str,
    adapter: bool,
    supervised: bool,
    /// As the configuration names it, and where it is on the Hub, without a revision.
    base: String,
    hub_base: Option<String>,
    revision: Option<&'r str>,
    tags: Vec<String>,
    datasets: BTreeSet<String>,
    facts: Vec<Fact>,
    step: usize,
    results: Vec<Score>,
    prompt: &'r str,
}

#[derive(Serialize)]
struct Fact {
    name: &'static str,
    /// Markdown.
    value: String,
}

/// Exact match in per cent.
#[derive(Serialize)]
struct Score {
    source: String,
    before: String,
    after: String,
}

/// The card of a run's newest checkpoint, or of its adapters alone. What a run has not measured is left out.
///
/// # Errors
/// A configuration or a log that cannot be read, with the path.
pub fn card(run: &RunDir, adapter: bool) -> Result<String, TrainError> {
    let config = Config::load(Some(&run.config()), &[])?;
    let history = History::read(&run.metrics()).unwrap_or_default();
    let step =
        checkpoint::latest(run)?.and_then(|folder| checkpoint::step(&folder)).unwrap_or(history.step());
    Ok(Card::new(run.root(), &config, &history, step, adapter).render())
}

impl<'r> Card<'r> {
    fn new(root: &Path, config: &'r Config, history: &History, step: usize, adapter: bool) -> Self {
        let supervised = history.steps.iter().any(|line| line.get("sft/loss").is_some());
        let algorithm = written(config.algorithm.name);
        let hub = HubId::named(&config.model.path);
        let name = root.file_name().map_or("model".into(), |name| name.to_string_lossy().into_owned());
        let mut tags = vec!["rex".to_string()];
        tags.extend(if supervised {
            vec!["sft".to_string()]
        } else {
            vec!["reinforcement-learning".to_string(), algorithm.clone()]
        });
        tags.extend((config.model.lora_rank > 0).then(|| "lora".to_string()));
        Self {
            library: if adapter { "peft" } else { "transformers" },
            relation: if adapter { "adapter" } else { "finetune" },
            adapter,
            supervised,
            base: base(&config.model.path),
            hub_base: hub.map(|id| id.repository.to_string()),
            revision: hub.and_then(|id| id.revision),
            tags,
            datasets: stems(&config.data.train_files).collect(),
            facts: facts(config, history, step, supervised, &algorithm),
            step,
            results: results(history, step),
            prompt: &config.data.prompt,
            name,
        }
    }

    fn render(&self) -> String {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_filter("yaml", |text: String| serde_json::to_string(&text).expect("a string"));
        environment.add_filter("code", |text: String| code(&text));
        environment.add_filter("cell", |text: String| cell(&text));
        environment.add_filter("block", |text: String| block(&text));
        let mut text =
            environment.render_named_str("card", TEMPLATE, Serde(self)).expect("the template is tested");
        text.truncate(text.trim_end().len());
        text + "\n"
    }
}

/// A choice as a configuration file writes it.
fn written(choice: impl Serialize) -> String {
    let value = serde_json::to_value(choice).expect("plain data");
    value.as_str().map_or(value.to_string(), str::to_string)
}

/// A model that was made on the spot has no path.
fn base(path: &Path) -> String {
    if path.as_os_str().is_empty() { "an untrained model".to_string() } else { path.display().to_string() }
}

fn stems(files: &[PathBuf]) -> impl Iterator<Item = String> {
    files.iter().filter_map(|file| {
        let name = file.file_name()?.to_string_lossy();
        Some(name.split('.').next().unwrap_or_default().to_string()).filter(|stem| !stem.is_empty())
    })
}

fn facts(config: &Config, history: &History, step: usize, supervised: bool, algorithm: &str) -> Vec<Fact> {
    let Config { data, rollout, probe, algorithm: method, optimizer, model, trainer, .. } = config;
    let mut facts = Vec::new();
    let mut fact = |name, value: String| facts.push(Fact { name, value });
    fact("Data", files(&data.train_files));
    fact("Validation data", files(&data.val_files));
    fact("Steps", format!("{step} of {}", trainer.total_steps));
    if supervised {
        fact("Algorithm", "supervised".to_string());
        fact("Transcripts a step", data.train_batch_size.to_string());
    } else {
        fact("Algorithm", code(algorithm));
        fact("Questions a step", format!("{} × {} originals", data.train_batch_size, rollout.group_size));
        fact(
            "Probes",
            format!("probability {}, correction {}", probe.probability, code(&written(method.correction))),
        );
        fact("Clip", format!("1 − {} to 1 + {}", method.clip_ratio_low, method.clip_ratio_high));
        fact("KL coefficient", method.kl_loss_coef.to_string());
        fact("Temperature", rollout.temperature.to_string());
    }
    fact("Learning rate", optimizer.lr.to_string());
    if model.lora_rank > 0 {
        let modules = code(&model.target_modules.join(", "));
        fact("LoRA", format!("rank {}, alpha {}, on {modules}", model.lora_rank, model.lora_alpha));
    }
    fact("Seed", trainer.seed.to_string());
    if history.seconds() > 0.0 {
        fact("Time", duration(history.seconds()));
    }
    if history.tokens(step) > 0.0 {
        fact("Tokens generated", count(history.tokens(step)));
    }
    facts.retain(|fact| !fact.value.is_empty());
    facts
}

fn files(files: &[PathBuf]) -> String {
    files.iter().map(|file| code(&file.display().to_string())).collect::<Vec<_>>().join(", ")
}

/// Of the first evaluation and the last one up to `step`, all questions last.
fn results(history: &History, step: usize) -> Vec<Score> {
    let mut sources = history.sources();
    sources.sort_by_key(|source| source == ALL);
    let score = |source: String| {
        let name = crate::evaluate::em_name(&source);
        let upto = history.evaluations.iter().filter(|line| line.step() <= step);
        let mut values = upto.filter_map(|line| line.get(&name)).filter(|value| value.is_finite());
        let before = values.next()?;
        let percent = |value: f64| format!("{:.1}", 100.0 * value);
        Some(Score { source, before: percent(before), after: percent(values.next_back().unwrap_or(before)) })
    };
    sources.into_iter().filter_map(score).collect()
}

/// Text in one line that cannot end a table's cell or become a tag.
fn cell(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    ['\\', '|', '<', '>', '`', '*', '_', '[', ']', '#']
        .iter()
        .fold(plain, |text, &special| text.replace(special, &format!("\\{special}")))
}

/// A code span, in a table too.
fn code(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect();
    format!("`{}`", plain.replace('|', "\\|"))
}

/// A fenced block whose fence the text does not hold.
fn block(text: &str) -> String {
    let mut fence = "```".to_string();
    while text.contains(&fence) {
        fence.push('`');
    }
    format!("{fence}text\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metrics;

    fn evaluation(step: usize, all: f64, source: &str, em: f64) -> Metrics {
        let mut line = Metrics::new(step);
        line.set(crate::evaluate::em_name(ALL), all);
        line.set(crate::evaluate::em_name(source), em);
        line
    }

    fn config(words: &[&str]) -> Config {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        Config::load(None, &words).unwrap()
    }

    #[test]
    fn a_card_tells_what_was_measured() {
        let config = config(&[
            "model.path=org/name@v1",
            "data.train_files=[\"data/train.jsonl.gz\"]",
            "algorithm.name=grpo",
        ]);
        let history = History::of([
            evaluation(0, 0.25, "2-hop", 0.1),
            evaluation(8, 0.5, "2-hop", 0.345),
            evaluation(16, 0.9, "2-hop", 0.9),
        ]);
        let card = Card::new(Path::new("runs/first"), &config, &history, 8, false).render();
        for line in [
            "library_name: transformers",
            "base_model: \"org/name\"",
            "base_model_relation: finetune",
            "- \"grpo\"",
            "- \"train\"",
            "# first",
            "| Data | `data/train.jsonl.gz` |",
            "| Algorithm | `grpo` |",
            "| Steps | 8 of 1005 |",
            "| 2-hop | 10.0 | 34.5 |",
            "| all | 25.0 | 50.0 |",
            "      value: 34.5",
        ] {
            assert!(card.lines().any(|found| found == line), "{line} is missing in:\n{card}");
        }
        assert!(card.starts_with("---\nlibrary_name"), "{card}");
        assert!(card.contains("Question: {question}"), "{card}");
    }

    #[test]
    fn adapters_and_supervised_runs_have_cards_without_metrics() {
        let lora = config(&["model.path=org/name", "model.lora_rank=8"]);
        let card = Card::new(Path::new("/"), &lora, &History::default(), 0, true).render();
        for words in
            ["library_name: peft", "base_model_relation: adapter", "PeftModel", "| LoRA | rank 8, alpha 16"]
        {
            assert!(card.contains(words), "{words} is missing in:\n{card}");
        }
        assert!(!card.contains("## Results") && !card.contains("model-index"), "{card}");

        let mut step = Metrics::new(1);
        step.set("sft/loss", 0.5);
        let card = Card::new(Path::new("sft"), &config(&[]), &History::of([step]), 1, false).render();
        assert!(card.contains("| Algorithm | supervised |") && card.contains("an untrained model"), "{card}");
        assert!(!card.contains("base_model"), "a path of this machine is no model on the Hub: {card}");
    }

    #[test]
    fn text_from_files_stays_text() {
        let hostile = "x\": y\n---\n# | `<script>`";
        let mut config = config(&[]);
        config.data.train_files = vec![PathBuf::from(hostile)];
        config.data.prompt = format!("{hostile}\n```\n{{question}}");
        let history = History::of([evaluation(0, 0.0, hostile, 0.0)]);
        let card = Card::new(Path::new(hostile), &config, &history, 0, false).render();
        assert_eq!(
            card.lines().filter(|line| *line == "---").count(),
            3,
            "the prompt's own, in its block: {card}"
        );
        let (_, front) = card.split_once("---\n").unwrap();
        let (front, body) = front.split_once("\n---\n").unwrap();
        assert!(front.contains(r#"name: "x\": y\n---\n# | `<script>`""#), "{front}");
        assert!(body.contains("````text\n") && body.contains("\\<script\\>"), "{body}");
    }
}
