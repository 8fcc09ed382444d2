//! `rex ask`: one question, streamed as the model and the search engine write it.

use super::model;
use super::sampling::{SamplingArgs, TRUNCATION};
use crate::args::{Experiment, Output};
use crate::device;
use crate::hopworld;
use anyhow::Result;
use console::{Style, style};
use rex_rollout::{Author, Episode};
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
    #[command(flatten)]
    sampling: SamplingArgs,
    /// A right answer: with it the answer is checked, and a wrong one can be probed
    #[arg(long, value_name = "ANSWER")]
    gold: Vec<String>,
    /// Mixed sampling, as in training: probe a wrong answer (needs --gold), and draw from all tokens
    #[arg(long, requires = "gold", conflicts_with_all = TRUNCATION)]
    mixed: bool,
    /// Overrides, for example retriever.topk=5
    #[arg(value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

pub fn run(args: AskArgs, output: Output) -> Result<()> {
    let config = args.experiment.load(hopworld::TRAIN, &args.overrides)?;
    let device = device::open(&args.experiment.device)?;
    let model = rex_trainer::load_model(&model::locate(&config, output)?, &config.model, &device)?;
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
        sampling: args.sampling.sampling(),
        group_size: 1,
        probing: probing.filter(|_| args.mixed),
        seed: args.sampling.seed,
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
                "log_probs": rollout.episode.transcript().log_probs(),
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

    /// Everything after the prompt that was not printed yet. The last tokens wait while they may still be half a character,
    /// unless `all` is wanted.
    fn print_new(&mut self, episode: &Episode, all: bool) -> std::io::Result<()> {
        let transcript = episode.transcript();
        let start = self.shown.max(transcript.prompt_len());
        let pieces = transcript.pieces(start.., self.environment.codec());
        let whole = pieces.iter().rposition(|piece| !piece.is_empty() && !piece.ends_with('\u{fffd}'));
        let ready = if all { pieces.len() } else { whole.map_or(0, |last| last + 1) };
        let mut out = std::io::stdout();
        for (author, piece) in transcript.authors()[start..].iter().zip(&pieces[..ready]) {
            write!(out, "{}", colour(*author).apply_to(printable(piece)))?;
        }
        self.shown = start + ready;
        out.flush()
    }
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
