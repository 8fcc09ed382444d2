//! The answer of a transcript, by author.

use crate::action::Action;
use crate::transcript::{Author, Segment};

/// The first answer that the model gave as the action of one of its turns.
///
/// Tags in a prompt, a passage, a notice or an exploration prompt are never read, a pair of tags does not span turns,
/// and what follows a turn's first complete action does not count.
pub fn answer(segments: &[Segment]) -> Option<String> {
    segments.iter().filter(|segment| segment.author == Author::Model).find_map(|turn| {
        match Action::first_complete(&turn.text)?.0 {
            Action::Answer(answer) => Some(answer),
            Action::Search(_) => None,
        }
    })
}
