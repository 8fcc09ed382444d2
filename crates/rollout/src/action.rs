//! What a turn does: the first complete `<search>…</search>` or `<answer>…</answer>` in its text.

use crate::python::strip;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A complete action; its content is stripped of white space at both ends and may be empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Search(String),
    Answer(String),
}

impl Action {
    /// The action whose closing tag comes first, and where it lies (tags included). Of several openings before that tag
    /// the first counts; a closing tag with no opening of its own kind before it is plain text.
    ///
    /// Tags are exact: `<Search>` and `<search >` are text. On a growing text the answer, once there, never changes.
    pub fn first_complete(text: &str) -> Option<(Self, Range<usize>)> {
        let mut opened: [Option<usize>; 2] = [None; 2];
        for (at, _) in text.match_indices('<') {
            for (kind, opened) in KINDS.iter().zip(&mut opened) {
                if text[at..].starts_with(kind.open) {
                    opened.get_or_insert(at);
                } else if let Some(start) = *opened
                    && text[at..].starts_with(kind.close)
                {
                    return Some(kind.action(text, start, at));
                }
            }
        }
        None
    }

    /// The official rule, `re.search(r'<(search|answer)>(.*?)</\1>', text, re.DOTALL)`: the leftmost opening tag that is
    /// closed anywhere behind it. It reads a generation that ran on behind its first action and so may see a search
    /// around an answer where [`Action::first_complete`], which reads while the text grows, sees the answer.
    pub fn leftmost(text: &str) -> Option<(Self, Range<usize>)> {
        text.match_indices('<').find_map(|(at, _)| {
            let kind = KINDS.iter().find(|kind| text[at..].starts_with(kind.open))?;
            let content = at + kind.open.len();
            let close = content + text[content..].find(kind.close)?;
            Some(kind.action(text, at, close))
        })
    }
}

struct Kind {
    open: &'static str,
    close: &'static str,
    make: fn(String) -> Action,
}

const KINDS: [Kind; 2] = [
    Kind { open: "<search>", close: "</search>", make: Action::Search },
    Kind { open: "<answer>", close: "</answer>", make: Action::Answer },
];

impl Kind {
    /// The action between the opening tag at `start` and the closing tag at `close`.
    fn action(&self, text: &str, start: usize, close: usize) -> (Action, Range<usize>) {
        let content = strip(&text[start + self.open.len()..close]);
        ((self.make)(content.to_owned()), start..close + self.close.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_tag_that_comes_first_decides() {
        let check = |text: &str, expected: Option<(Action, &str)>| {
            let found = Action::first_complete(text).map(|(action, span)| (action, &text[span]));
            assert_eq!(found, expected, "{text}");
        };
        let search = |q: &str| Action::Search(q.into());
        let answer = |a: &str| Action::Answer(a.into());
        check("", None);
        check("<search> q <answer>", None);
        check("a </answer> b", None);
        check("x<search> q </search><answer>A</answer>", Some((search("q"), "<search> q </search>")));
        check("<search> q <answer> A </answer> r </search>", Some((answer("A"), "<answer> A </answer>")));
        check(
            "<search> q </answer> r </search>",
            Some((search("q </answer> r"), "<search> q </answer> r </search>")),
        );
        check("<answer> <answer> A </answer>", Some((answer("<answer> A"), "<answer> <answer> A </answer>")));
        check("<<search>>é<</search>>", Some((search(">é<"), "<search>>é<</search>")));
        check("<search></search>", Some((search(""), "<search></search>")));
    }
}
