//! The JSON that the worker hands in and gets: questions, what happens while they are answered, and what came of it.

use rex_model::{Alternatives, Uncertainty};
use rex_rollout::{Author, Codec, Episode, Passage};
use rex_sampler::{Event, Origin, Rollout};
use serde::{Deserialize, Serialize};

/// The files of a model folder and what surrounds it. The binary ones are handed in beside it.
#[derive(Deserialize)]
pub(crate) struct Texts {
    pub(crate) config: String,
    pub(crate) generation_config: Option<String>,
    /// An experiment file, TOML.
    pub(crate) settings: String,
    /// Exploration prompts, one a line.
    pub(crate) exploration: String,
}

/// A question and its right answers.
#[derive(Deserialize)]
pub(crate) struct Asked {
    pub(crate) question: String,
    pub(crate) golds: Vec<String>,
}

/// Questions to learn from.
#[derive(Deserialize)]
pub(crate) struct Lesson {
    pub(crate) questions: Vec<Asked>,
    pub(crate) seed: u64,
}

/// A question and how it is sampled.
#[derive(Deserialize)]
pub(crate) struct Request {
    #[serde(flatten)]
    pub(crate) asked: Asked,
    /// 0 takes the likeliest token.
    pub(crate) temperature: f64,
    pub(crate) seed: u64,
    /// Originals to draw.
    pub(crate) originals: usize,
    /// Whether those that end in a wrong answer are probed.
    pub(crate) mixed: bool,
}

/// What happened. A transcript is named by its number among the originals and by whether it is that one's probe.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Happening {
    Token {
        sample: usize,
        probe: bool,
        token: Token,
    },
    Passage {
        sample: usize,
        probe: bool,
        query: String,
        passages: Vec<ShownPassage>,
        /// As the model reads them, and what the environment says after a turn without an action.
        tokens: Vec<Token>,
    },
    Branch {
        sample: usize,
        /// Tokens shared with the original, prompt included.
        prefix: usize,
        /// The exploration prompt.
        tokens: Vec<Token>,
    },
    Ended {
        sample: usize,
        probe: bool,
        answer: Option<String>,
        correct: bool,
    },
}

/// One token that is not the prompt's.
#[derive(Serialize)]
pub(crate) struct Token {
    /// Its place in the transcript, prompt included.
    place: usize,
    id: u32,
    text: String,
    author: Author,
    /// Of tokens that the policy drew.
    log_prob: Option<f32>,
}

#[derive(Serialize)]
pub(crate) struct ShownPassage {
    id: String,
    title: String,
    text: String,
    score: f32,
}

/// A finished transcript, behind its prompt.
#[derive(Serialize)]
pub(crate) struct Finished {
    sample: usize,
    probe: bool,
    answer: Option<String>,
    correct: bool,
    f1: f64,
    searches: usize,
    prompt: usize,
    /// Of the whole transcript, prompt included.
    ids: Vec<u32>,
    tokens: Vec<Measured>,
}

/// A token with what the model thought of it.
#[derive(Serialize)]
struct Measured {
    #[serde(flatten)]
    token: Token,
    /// Empty for what the environment wrote.
    alternatives: Vec<(String, f32)>,
    aleatoric: Option<f64>,
    epistemic: Option<f64>,
}

impl Happening {
    /// `event` as the page wants it. The tokens that the environment adds after a turn without an action come with the token
    /// that ended it.
    pub(crate) fn of(event: Event<'_>, codec: &dyn Codec) -> Vec<Self> {
        let probe = |episode: &Episode| episode.branch().is_some();
        match event {
            Event::Token { sample, episode } => {
                let transcript = episode.transcript();
                let drawn = transcript.authors().iter().rposition(|&author| author == Author::Model);
                let drawn = drawn.expect("a token was drawn");
                let tokens = tokens(episode, drawn, codec);
                tokens.into_iter().map(|token| Self::Token { sample, probe: probe(episode), token }).collect()
            }
            Event::Passages { sample, episode, query, passages } => {
                let last = episode.transcript().segments().last();
                let start = match last {
                    Some((Author::Information, range)) => range.start,
                    // No room was left for them.
                    _ => episode.transcript().len(),
                };
                vec![Self::Passage {
                    sample,
                    probe: probe(episode),
                    query: query.to_string(),
                    passages: passages.iter().map(ShownPassage::from).collect(),
                    tokens: tokens(episode, start, codec),
                }]
            }
            Event::Branched { sample, probe, .. } => {
                let prefix = probe.branch().map_or(0, |branch| branch.prefix);
                vec![Self::Branch { sample, prefix, tokens: tokens(probe, prefix, codec) }]
            }
            Event::Finished { sample, episode, scores } => vec![Self::Ended {
                sample,
                probe: probe(episode),
                answer: scores.answer.clone(),
                correct: scores.is_correct(),
            }],
        }
    }
}

impl Finished {
    /// `alternatives`: of every token of the transcript but the first.
    pub(crate) fn new(rollout: &Rollout, alternatives: &[Alternatives], codec: &dyn Codec) -> Self {
        let transcript = rollout.episode.transcript();
        let prompt = transcript.prompt_len();
        let measured = |token: Token| {
            let others = &alternatives[token.place - 1];
            let in_loss = token.author.in_loss();
            let uncertainty = in_loss.then(|| Uncertainty::of(&others.logits));
            let shown = others.ids.iter().zip(&others.log_probs).take(if in_loss { SHOWN } else { 0 });
            Measured {
                alternatives: shown.map(|(id, log)| (codec.decode(&[*id]), log.exp())).collect(),
                aleatoric: uncertainty.map(|u| u.aleatoric),
                epistemic: uncertainty.map(|u| u.epistemic),
                token,
            }
        };
        Self {
            sample: rollout.sample,
            probe: rollout.origin == Origin::Probe,
            answer: rollout.scores.answer.clone(),
            correct: rollout.scores.is_correct(),
            f1: rollout.scores.f1,
            searches: rollout.episode.searches(),
            prompt,
            ids: transcript.ids().to_vec(),
            tokens: tokens(&rollout.episode, prompt, codec).into_iter().map(measured).collect(),
        }
    }
}

/// Alternatives to a token that the page shows.
const SHOWN: usize = 4;

/// The tokens of an episode from `start` on.
fn tokens(episode: &Episode, start: usize, codec: &dyn Codec) -> Vec<Token> {
    let transcript = episode.transcript();
    let token = |(piece, place): (String, usize)| {
        let author = transcript.authors()[place];
        Token {
            place,
            id: transcript.ids()[place],
            text: piece,
            author,
            log_prob: author.in_loss().then(|| transcript.log_probs()[place]),
        }
    };
    transcript.pieces(start.., codec).into_iter().zip(start..).map(token).collect()
}

impl From<&Passage> for ShownPassage {
    fn from(passage: &Passage) -> Self {
        Self {
            id: passage.id.clone(),
            title: passage.title().to_string(),
            text: passage.text().to_string(),
            score: passage.score,
        }
    }
}
