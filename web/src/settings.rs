//! The part of an experiment file that answering a question needs; the trainer reads the same file whole.

use rex_rollout::Protocol;
use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Settings {
    data: Data,
    retriever: Retriever,
    rollout: Rollout,
}

#[derive(Deserialize)]
struct Data {
    prompt: String,
}

#[derive(Deserialize)]
struct Retriever {
    topk: usize,
}

#[derive(Deserialize)]
struct Rollout {
    max_turns: usize,
    max_start_length: usize,
    max_response_length: usize,
    max_obs_length: usize,
    max_prompt_length: usize,
    max_rows: usize,
}

impl Settings {
    pub(crate) fn prompt(&self, question: &str) -> String {
        self.data.prompt.replace("{question}", question.trim())
    }

    /// Longest prompt, in tokens.
    pub(crate) fn max_prompt_tokens(&self) -> usize {
        self.rollout.max_start_length
    }

    pub(crate) fn topk(&self) -> usize {
        self.retriever.topk
    }

    pub(crate) fn max_rows(&self) -> usize {
        self.rollout.max_rows
    }

    pub(crate) fn protocol(&self, end_ids: Vec<u32>) -> Protocol {
        Protocol {
            max_turns: self.rollout.max_turns,
            max_response_tokens: self.rollout.max_response_length,
            max_obs_tokens: self.rollout.max_obs_length,
            max_total_tokens: self.rollout.max_prompt_length,
            end_ids,
            ..Protocol::default()
        }
    }
}
