//! What a finished run has come to, and what to do next.

use anyhow::Result;
use rex_trainer::config::Config;
use rex_trainer::data::{Question, read_questions};
use rex_trainer::evaluate::ALL;
use rex_trainer::quantity::{count, duration};
use rex_trainer::{History, RunDir, checkpoint};
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Everything is read from the run's files, so that a resumed run tells of its beginning, too.
pub fn print(
    run: &RunDir,
    report: Option<&Path>,
    config: &Config,
    file: &Path,
    out: &mut impl Write,
) -> Result<()> {
    let history = History::read(&run.metrics())?;
    writeln!(out)?;
    scores(&history, out)?;
    if let Some((first, last)) = history.dead_ends() {
        writeln!(out, "Dead ends     {:.1} -> {:.1} % of the questions", 100.0 * first, 100.0 * last)?;
    }
    let memory = peak_memory().map_or(String::new(), |bytes| format!(", {:.0} MB at most", bytes / 1e6));
    let (time, tokens) = (duration(history.seconds()), count(history.tokens(usize::MAX)));
    writeln!(out, "Took          {time}, {tokens} tokens generated{memory}")?;
    writeln!(out, "Run           {}: metrics.jsonl, rollouts/, checkpoints/", run.root().display())?;
    if let Some(report) = report {
        writeln!(out, "Report        {}: curves and transcripts, for a browser", report.display())?;
    }
    next(run, config, file, out)
}

fn scores(history: &History, out: &mut impl Write) -> Result<()> {
    let mut sources = history.sources();
    // All questions last, as a sum stands below its parts.
    sources.sort_by_key(|source| source == ALL);
    for source in sources {
        let points = history.em(&source).points().to_vec();
        let (Some(first), Some(last)) = (points.first(), points.last()) else { continue };
        writeln!(out, "EM {source:<10} {:.1} -> {:.1} %", 100.0 * first.1, 100.0 * last.1)?;
    }
    Ok(())
}

fn next(run: &RunDir, config: &Config, file: &Path, out: &mut impl Write) -> Result<()> {
    let program = std::env::args().next().unwrap_or_else(|| "rex".to_string());
    let root = run.root().display().to_string();
    writeln!(out, "\nNext:")?;
    let mut command = |words: &[&str], what: &str| {
        let words: Vec<String> = words.iter().map(|word| shell(word)).collect();
        writeln!(out, "  {} {}\n      {what}", shell(&program), words.join(" "))
    };
    if let (Some(question), Some(model)) = (example(&config.data.val_files)?, checkpoint::latest(run)?) {
        let (saved, model) = (run.config().display().to_string(), format!("model.path={}", model.display()));
        let gold = &question.golden_answers[0];
        command(
            &["ask", &question.question, "--gold", gold, "--config", &saved, &model],
            "watch the trained model search",
        )?;
    }
    command(&["compare", "--config", &file.display().to_string()], "the same under GRPO, over three seeds")?;
    command(&["export", &root, "--out", "my-model"], "the model as a Hugging Face folder")?;
    Ok(())
}

/// A question to try the model on: of the middle source, neither the easiest nor the hardest where they are ordered.
fn example(files: &[PathBuf]) -> Result<Option<Question>> {
    let Some(file) = files.first() else { return Ok(None) };
    let questions = read_questions(file)?;
    let sources: BTreeSet<&str> = questions.iter().map(|question| question.data_source.as_str()).collect();
    let middle = sources.iter().nth(sources.len() / 2).copied();
    Ok(questions.iter().find(|question| Some(question.data_source.as_str()) == middle).cloned())
}

/// A word as a shell takes it.
fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The most memory that this process held, in bytes, where the system tells.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024.0 * line.trim().strip_suffix(" kB")?.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::shell;

    #[test]
    fn words_for_a_shell() {
        for (word, expected) in [
            ("runs/hopworld", "runs/hopworld"),
            ("", "''"),
            ("Who is the boss of Gemo Zalmo?", "'Who is the boss of Gemo Zalmo?'"),
            ("it's $HOME", r"'it'\''s $HOME'"),
        ] {
            assert_eq!(shell(word), expected);
        }
    }
}
