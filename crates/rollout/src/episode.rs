//! One question being answered: the rules of the protocol as a state machine.

use crate::action::Action;
use crate::codec::{Codec, TurnText};
use crate::observation::encode_observation;
use crate::probe::Branch;
use crate::protocol::Protocol;
use crate::retrieval::Passage;
use crate::transcript::{Author, Segment, Transcript};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// An episode: ask [`need`](Episode::need), give it that, until it needs nothing.
///
/// The policy draws tokens until its turn holds a complete action, a turn's limit is reached or it draws an end-of-text
/// id. A search gets passages, a turn without an action the notice; both open the next turn. After
/// [`Protocol::max_turns`] turns comes a last one in which a search does nothing. Only text that the model wrote in the
/// current turn is ever parsed.
///
/// Ids are kept as they were drawn, end-of-text ids and text behind a closing tag included.
///
/// Serialised as its [`Record`], which only a finished episode can be made from again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Record", try_from = "Record")]
pub struct Episode {
    transcript: Transcript,
    turns: Vec<Turn>,
    /// The turn being written: its first token, and its text.
    start: usize,
    draft: TurnText,
    state: State,
    branch: Option<Branch>,
}

#[derive(Debug, Clone)]
enum State {
    Drawing,
    Searching { query: String },
    Done(Outcome),
}

/// What an episode waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need<'a> {
    /// A token that the policy draws: [`Episode::push_token`].
    Token,
    /// The passages for a query, which is never empty: [`Episode::push_passages`].
    Passages { query: &'a str },
    /// The episode is over.
    Nothing(Outcome),
}

/// How an episode ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Answer(String),
    /// The last turn held no answer.
    NoAnswer,
    /// The context was full.
    Truncated,
}

/// What the policy wrote between two words of the environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub tokens: Range<usize>,
    /// Decoded, without the end-of-text id.
    pub text: String,
    pub action: Option<Action>,
}

/// An episode on disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub transcript: Transcript,
    pub turns: Vec<Turn>,
    /// None while the episode runs.
    pub outcome: Option<Outcome>,
    /// Of a probe: where it left its parent.
    pub branch: Option<Branch>,
}

impl Episode {
    /// An original: a prompt to be continued. The caller keeps the prompt shorter than [`Protocol::max_total_tokens`].
    pub fn new(prompt_ids: Vec<u32>) -> Self {
        Self::resume(Transcript::new(prompt_ids), Vec::new(), None)
    }

    /// An episode whose next turn opens at the end of `transcript`.
    pub(crate) fn resume(transcript: Transcript, turns: Vec<Turn>, branch: Option<Branch>) -> Self {
        let start = transcript.len();
        Self { transcript, turns, start, draft: TurnText::default(), state: State::Drawing, branch }
    }

    pub fn need(&self) -> Need<'_> {
        match &self.state {
            State::Drawing => Need::Token,
            State::Searching { query } => Need::Passages { query },
            State::Done(outcome) => Need::Nothing(outcome.clone()),
        }
    }

    /// Takes a token that the policy drew with log-probability `log_prob`.
    ///
    /// # Panics
    /// When the episode does not need a token.
    pub fn push_token(&mut self, id: u32, log_prob: f32, protocol: &Protocol, codec: &dyn Codec) {
        assert!(matches!(self.state, State::Drawing), "a token for an episode that needs {:?}", self.need());
        self.transcript.push(id, Author::Model, log_prob);
        let ended = protocol.end_ids.contains(&id);
        let mut action = None;
        // A tag ends in '>': only a token that brings one can complete an action.
        if !ended && self.draft.push(id, codec).contains('>') {
            action = Action::first_complete(self.draft.as_str()).map(|(action, _)| action);
        }
        let drawn = self.transcript.len() - self.start;
        if action.is_some() || ended || drawn >= protocol.max_response_tokens {
            self.end_turn(action, protocol, codec);
        } else if self.transcript.len() >= protocol.max_total_tokens {
            self.close_turn(None);
            self.state = State::Done(Outcome::Truncated);
        }
    }

    /// Takes the answer to a search, best passage first.
    ///
    /// # Panics
    /// When the episode does not need passages.
    pub fn push_passages(&mut self, passages: &[Passage], protocol: &Protocol, codec: &dyn Codec) {
        let searching = matches!(self.state, State::Searching { .. });
        assert!(searching, "passages for an episode that needs {:?}", self.need());
        self.reply(
            &encode_observation(passages, protocol.max_obs_tokens, codec),
            Author::Information,
            protocol,
        );
    }

    fn end_turn(&mut self, action: Option<Action>, protocol: &Protocol, codec: &dyn Codec) {
        self.close_turn(action.clone());
        let search_is_off = self.turns.len() > protocol.max_turns;
        match action {
            Some(Action::Answer(answer)) => self.state = State::Done(Outcome::Answer(answer)),
            _ if search_is_off => self.state = State::Done(Outcome::NoAnswer),
            Some(Action::Search(query)) => {
                let nothing_to_ask = query.is_empty();
                self.state = State::Searching { query };
                if nothing_to_ask {
                    self.push_passages(&[], protocol, codec);
                }
            }
            None => self.reply(&codec.encode(&protocol.notice), Author::Notice, protocol),
        }
    }

    fn close_turn(&mut self, action: Option<Action>) {
        let text = std::mem::take(&mut self.draft).as_str().to_owned();
        self.turns.push(Turn { tokens: self.start..self.transcript.len(), text, action });
    }

    /// Appends what the environment says and opens the next turn. Where that leaves no room to draw, the episode ends
    /// and nothing is appended: half an observation would be worse than none.
    fn reply(&mut self, ids: &[u32], author: Author, protocol: &Protocol) {
        if self.transcript.len() + ids.len() >= protocol.max_total_tokens {
            self.state = State::Done(Outcome::Truncated);
            return;
        }
        self.transcript.extend(ids, author);
        self.start = self.transcript.len();
        self.state = State::Drawing;
    }

    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The turns that are over. In a probe the first ones are its parent's; the one that was cut has no action.
    pub fn turns(&self) -> &[Turn] {
        &self.turns
    }

    /// The text of the turn being written.
    pub fn draft(&self) -> &str {
        self.draft.as_str()
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            State::Done(outcome) => Some(outcome),
            _ => None,
        }
    }

    pub fn answer(&self) -> Option<&str> {
        match self.outcome() {
            Some(Outcome::Answer(answer)) => Some(answer),
            _ => None,
        }
    }

    /// Searches that the model asked for, one in the last turn included; a probe's count from its parent's first.
    pub fn searches(&self) -> usize {
        self.turns.iter().filter(|turn| matches!(turn.action, Some(Action::Search(_)))).count()
    }

    /// Of a probe: where it left its parent.
    pub fn branch(&self) -> Option<&Branch> {
        self.branch.as_ref()
    }

    /// Sets the policy's log-probabilities of the exploration prompt, whose tokens were forced and not drawn.
    ///
    /// # Panics
    /// When `range` holds a token of another author, or `log_probs` has another length.
    pub fn score(&mut self, range: Range<usize>, log_probs: &[f32]) {
        let forced = self.transcript.authors()[range.clone()].iter().all(|&author| author == Author::Probe);
        assert!(forced, "tokens {range:?} are not an exploration prompt");
        self.transcript.score(range, log_probs);
    }

    /// The text of every author's run in order, the model's one turn at a time.
    pub fn segments(&self, codec: &dyn Codec) -> Vec<Segment> {
        let draft = (self.start, self.draft.as_str());
        let turns = || self.turns.iter().map(|turn| (turn.tokens.start, turn.text.as_str())).chain([draft]);
        let mut segments = Vec::new();
        for (author, range) in self.transcript.segments() {
            let decoded = || codec.decode(&self.transcript.ids()[range.clone()]);
            match author {
                Author::Model => {
                    let written = turns().filter(|(start, text)| range.contains(start) && !text.is_empty());
                    segments.extend(written.map(|(_, text)| Segment { author, text: text.to_owned() }));
                }
                _ => segments.push(Segment { author, text: decoded() }),
            }
        }
        segments
    }

    pub fn record(&self) -> Record {
        Record {
            transcript: self.transcript.clone(),
            turns: self.turns.clone(),
            outcome: self.outcome().cloned(),
            branch: self.branch.clone(),
        }
    }
}

impl From<Episode> for Record {
    fn from(episode: Episode) -> Self {
        episode.record()
    }
}

impl TryFrom<Record> for Episode {
    type Error = &'static str;

    fn try_from(record: Record) -> Result<Self, Self::Error> {
        let Record { transcript, turns, outcome, branch } = record;
        let outcome = outcome.ok_or("an episode that has not ended cannot be gone on with")?;
        Ok(Self { state: State::Done(outcome), ..Self::resume(transcript, turns, branch) })
    }
}
