//! The settings of an episode: limits, end-of-text ids and what the environment says.

use serde::{Deserialize, Serialize};

/// What the environment answers to a turn without an action. The official text, which the format score deletes again.
pub const NOTICE: &str = "\nMy action is invalid. ";

/// Limits of an episode, in the words of Search-R1's loop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Protocol {
    /// Turns that may search. One more follows with search off, so an episode has at most `max_turns + 1`.
    pub max_turns: usize,
    /// Tokens the policy may draw in one turn.
    pub max_response_tokens: usize,
    /// Tokens of one observation, its `<information>` tags included; longer ones lose passages, never a tag.
    pub max_obs_tokens: usize,
    /// Tokens of the whole transcript: the context that the model was made for.
    pub max_total_tokens: usize,
    /// Every id with which the model may end its text.
    pub end_ids: Vec<u32>,
    /// Appended after a turn without an action.
    pub notice: String,
}

impl Default for Protocol {
    /// The official limits.
    fn default() -> Self {
        Self {
            max_turns: 5,
            max_response_tokens: 500,
            max_obs_tokens: 500,
            max_total_tokens: 4096,
            end_ids: Vec::new(),
            notice: NOTICE.into(),
        }
    }
}
