//! `rex ask`: one question, streamed as the model and the search engine write it.

use super::sampling;
use crate::args::{Experiment, Output};
use crate::device;
use crate::hopworld;
use anyhow::Result;
use console::{Style, style};
use rex_rollout::{Author, Codec, Episode};
use rex_trainer::data::Question;
use rex_trainer::{Draw, Environment, Event};
use serde_json::json;
use std::io::Write;

#[derive(Debug, clap::Args)]
pub struct AskArgs {
    /// The question
    question: String,
    #[command(flatten)]
    experiment: Experiment,
    /// Sampling temperature; 0 takes the likeliest token
    #[arg(long, default_value_t = 0.0)]
    temperature: f64,
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A right answer: with it the answer is checked, and a wrong one can be probed
    #[arg(long, value_name = "ANSWER")]
    gold: Vec<String>,
    /// Mixed sampling: probe a wrong answer (needs --gold)
    #[arg(long, requires = "gold")]
    mixed: bool,
    /// Overrides, for example retriever.topk=5
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

pub fn run(args: AskArgs, output: Output) -> Result<()> {
    let config = args.experiment.load(hopworld::TRAIN, &args.overrides)?;
    let device = device::open(&args.experiment.device)?;
    let model = rex_trainer::load_model(config.model_path()?, &config.model, &device)?;
    let environment = Environment::new(&config, &model)?;
    let question = Question {
        id: "question".to_string(),
        question: args.question,
        golden_answers: args.gold,
        data_source: "ask".to_string(),
        metadata: serde_json::Value::Null,
        prompt: None,
    };
    let task = environment.task(&question)?;
    let probing = environment.probing().map(|p| rex_trainer::Probing { probability: 1.0, ..p });
    let draw = Draw {
        sampling: sampling(args.temperature),
        group_size: 1,
        probing: probing.filter(|_| args.mixed),
        seed: args.seed,
        step: 0,
    };

    let judged = !task.golds.is_empty();
    let mut stream = Stream { environment: &environment, shown: 0, silent: output.json, judged };
    let mut failed = None;
    let mut observe = |event: Event<'_>| {
        if failed.is_none() {
            failed = stream.show(event).err();
        }
    };
    let sampled = environment.sampler().sample(&model.decoder, &[task], draw, &mut observe)?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if output.json {
        for rollout in &sampled.rollouts {
            let line = json!({
                "origin": rollout.origin,
                "answer": rollout.episode.answer(),
                "searches": rollout.episode.searches(),
                "ids": rollout.episode.transcript().ids(),
                "scores": rollout.scores,
            });
            writeln!(std::io::stdout(), "{line}")?;
        }
    }
    Ok(())
}

/// Prints what is new in an episode, coloured by author.
struct Stream<'e> {
    environment: &'e Environment,
    /// Transcript tokens already printed.
    shown: usize,
    silent: bool,
    /// Whether there is a gold answer to check against.
    judged: bool,
}

impl Stream<'_> {
    fn show(&mut self, event: Event<'_>) -> std::io::Result<()> {
        if self.silent {
            return Ok(());
        }
        match event {
            Event::Token { episode, .. } | Event::Passages { episode, .. } => self.print_new(episode, false),
            Event::Finished { episode, scores, .. } => {
                self.print_new(episode, true)?;
                let mut out = std::io::stdout();
                match episode.answer() {
                    Some(answer) => writeln!(out, "\n\n{} {answer}", style("answer:").bold())?,
                    None => writeln!(out, "\n\n{}", style("no answer").bold())?,
                }
                if self.judged {
                    writeln!(out, "{} {}", style("exact match:").bold(), scores.em)?;
                }
                Ok(())
            }
            Event::Branched { parent, probe, .. } => {
                self.shown = probe.branch().map_or(0, |branch| branch.prefix);
                let cut = parent.transcript().ids().len() - self.shown;
                let note =
                    format!("wrong: its last {cut} tokens are cut away and a probe goes on from there");
                writeln!(std::io::stdout(), "\n{}", style(note).yellow())?;
                self.print_new(probe, true)
            }
        }
    }

    /// Everything after the prompt that was not printed yet. The last characters wait while they may still be half a
    /// character, unless `all` is wanted.
    fn print_new(&mut self, episode: &Episode, all: bool) -> std::io::Result<()> {
        let transcript = episode.transcript();
        let codec = self.environment.codec();
        let mut out = std::io::stdout();
        for (author, range) in transcript.segments() {
            let start = range.start.max(self.shown);
            if author == Author::Prompt || start >= range.end {
                continue;
            }
            let text = continued(codec, &transcript.ids()[range.start..range.end], start - range.start);
            if !all && text.ends_with('\u{fffd}') && range.end == transcript.len() {
                return out.flush();
            }
            write!(out, "{}", colour(author).apply_to(printable(&text)))?;
            self.shown = range.end;
        }
        out.flush()
    }
}

/// The text of a segment's tokens from `shown` on, as it stands in the whole segment: decoded alone, a token may lack the space
/// before it.
fn continued(codec: &dyn Codec, ids: &[u32], shown: usize) -> String {
    let before = codec.decode(&ids[..shown]);
    let alone = || codec.decode(&ids[shown..]);
    codec.decode(ids).strip_prefix(&before).map_or_else(alone, str::to_string)
}

fn colour(author: Author) -> Style {
    match author {
        Author::Prompt | Author::Model => Style::new(),
        Author::Notice => Style::new().red(),
        Author::Information => Style::new().cyan(),
        Author::Probe => Style::new().magenta(),
    }
}

/// Text from a model or a corpus must not steer the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids are letters, a space between two.
    struct Spaced;

    impl Codec for Spaced {
        fn encode(&self, text: &str) -> Vec<u32> {
            text.chars().filter(|c| *c != ' ').map(u32::from).collect()
        }

        fn decode(&self, ids: &[u32]) -> String {
            let letters: Vec<String> =
                ids.iter().map(|&id| char::from_u32(id).unwrap().to_string()).collect();
            letters.join(" ")
        }
    }

    #[test]
    fn pieces_make_the_whole() {
        let ids = Spaced.encode("a b c");
        let pieces: Vec<String> = (0..3).map(|shown| continued(&Spaced, &ids[..=shown], shown)).collect();
        assert_eq!(pieces, ["a", " b", " c"]);
    }
}
