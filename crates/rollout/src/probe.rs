//! Mixed sampling: a failed episode carried on from before its failure, with an exploration prompt in between.

use crate::Action;
use crate::codec::{Codec, TurnText};
use crate::episode::{Episode, Outcome, Turn};
use crate::protocol::Protocol;
use crate::transcript::Author;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Which failed originals are probed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeOn {
    /// Those that ended in a wrong answer, the official rule.
    #[default]
    WrongAnswer,
    /// Also those that ended without an answer.
    AnyFailure,
}

/// Where a probe left its parent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Tokens shared with the parent, prompt included.
    pub prefix: usize,
    /// The exploration prompt's tokens; they start where the prefix ends.
    pub exploration: Range<usize>,
}

impl Episode {
    /// The probe `o' = u · e · v` of this failed original: its own ids `u` up to the failure, then `exploration`, `e`,
    /// and the policy draws on. Whether the original failed is for the caller to judge, who knows the gold answers.
    ///
    /// An answer is cut from the token in which its `<answer>` begins, and its turn stays spent. With
    /// [`ProbeOn::AnyFailure`] an episode without an answer is cut behind its last answered search, which takes the
    /// turns after it back.
    ///
    /// None for a probe, a running episode, an answer of the last, search-less turn, an episode without an answer and
    /// without an answered search, and where the context leaves no room.
    pub fn probe(
        &self,
        on: ProbeOn,
        exploration: &[u32],
        protocol: &Protocol,
        codec: &dyn Codec,
    ) -> Option<Episode> {
        if self.branch().is_some() {
            return None;
        }
        let (prefix, turns) = match self.outcome()? {
            Outcome::Answer(_) => self.before_answer(protocol, codec)?,
            Outcome::NoAnswer | Outcome::Truncated if on == ProbeOn::AnyFailure => {
                self.behind_last_search()?
            }
            Outcome::NoAnswer | Outcome::Truncated => return None,
        };
        let branch = Branch { prefix, exploration: prefix..prefix + exploration.len() };
        if branch.exploration.end >= protocol.max_total_tokens {
            return None;
        }
        let mut transcript = self.transcript().prefix(prefix);
        transcript.extend(exploration, Author::Probe);
        Some(Episode::resume(transcript, turns, Some(branch)))
    }

    /// The token in which the final `<answer>` begins, and the turns up to there.
    fn before_answer(&self, protocol: &Protocol, codec: &dyn Codec) -> Option<(usize, Vec<Turn>)> {
        let (last, earlier) = self.turns().split_last()?;
        if earlier.len() >= protocol.max_turns {
            return None;
        }
        let mut draft = TurnText::default();
        for &id in &self.transcript().ids()[last.tokens.clone()] {
            draft.push(id, codec);
        }
        let (_, answer) = Action::first_complete(draft.as_str())?;
        let kept = draft.token_at(answer.start);
        let prefix = last.tokens.start + kept;
        let cut =
            Turn { tokens: last.tokens.start..prefix, text: draft.text_of(kept).to_owned(), action: None };
        Some((prefix, [earlier, &[cut]].concat()))
    }

    /// The end of the observation of the last search that got one, and the turns up to there.
    fn behind_last_search(&self) -> Option<(usize, Vec<Turn>)> {
        let answered = self.turns().windows(2).rposition(|pair| pair[0].action.is_some())?;
        let (kept, rest) = self.turns().split_at(answered + 1);
        Some((rest[0].tokens.start, kept.to_vec()))
    }
}
