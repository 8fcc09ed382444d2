//! The format score: how far a response keeps to `think, search, information, think, answer`.
//!
//! Source: `format_rating` in `verl/utils/reward_score/qa_em_format.py` of the official code, quirks kept: the best
//! score is 1.21, an exploration prompt's second `<think>` counts as out of order, and an open `<action>` costs nothing.

use crate::action::Action;
use crate::python::strip;
use crate::transcript::{Author, Segment};
use serde::{Deserialize, Serialize};

/// Four levels in 0..=1, each of which counts only as far as the one before it is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct FormatScore {
    /// Which of the six tags of think, search and answer occur, which are closed, how much of the text lies inside tags
    /// (information aside), and how many tags come in order.
    pub levels: [f64; 4],
    /// `F_0 = L_0`, `F_k = (0.01 + F_{k-1}^5) · L_k`.
    pub factors: [f64; 4],
    /// `0.05 F_0 + 0.15 F_1 + 0.25 F_2 + 0.55 F_3`.
    pub total: f64,
}

impl FormatScore {
    /// Scores a response: everything behind the prompt, without notices.
    pub fn of(response: &str) -> Self {
        let mut reader = Reader::default();
        for piece in Piece::split(response) {
            reader.read(piece);
        }
        reader.score()
    }

    /// Scores a transcript: what the model wrote up to each turn's action, the passages and the exploration prompts.
    pub fn of_segments(segments: &[Segment]) -> Self {
        let shown = segments.iter().map(|segment| match segment.author {
            Author::Model => {
                let end = Action::first_complete(&segment.text).map(|(_, span)| span.end);
                &segment.text[..end.unwrap_or(segment.text.len())]
            }
            Author::Information | Author::Probe => segment.text.as_str(),
            Author::Prompt | Author::Notice => "",
        });
        Self::of(&shown.collect::<String>())
    }
}

/// Whether a response is in order throughout: `is_valid_sequence` of the official code.
pub(super) fn is_valid(response: &str) -> bool {
    let mut place = Place::Start;
    let mut balance = [0_i64; 5];
    for piece in Piece::split(response) {
        match piece {
            Piece::Open(tag) => balance[tag as usize] += 1,
            Piece::Close(tag) => balance[tag as usize] -= 1,
            Piece::Text(_) if place.holds_text() => continue,
            Piece::Text(_) => return false,
        }
        let Some(next) = place.follow(piece) else { return false };
        place = next;
    }
    balance == [0; 5] && place == Place::After(Tag::Answer)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Think,
    Search,
    Information,
    Answer,
    Action,
}

#[derive(Clone, Copy)]
enum Piece<'t> {
    Open(Tag),
    Close(Tag),
    Text(&'t str),
}

impl<'t> Piece<'t> {
    const TAGS: [(&'static str, Piece<'static>); 10] = [
        ("<think>", Piece::Open(Tag::Think)),
        ("</think>", Piece::Close(Tag::Think)),
        ("<search>", Piece::Open(Tag::Search)),
        ("</search>", Piece::Close(Tag::Search)),
        ("<information>", Piece::Open(Tag::Information)),
        ("</information>", Piece::Close(Tag::Information)),
        ("<answer>", Piece::Open(Tag::Answer)),
        ("</answer>", Piece::Close(Tag::Answer)),
        ("<action>", Piece::Open(Tag::Action)),
        ("</action>", Piece::Close(Tag::Action)),
    ];

    /// Tags, and the texts between them that are not all white space.
    fn split(text: &'t str) -> Vec<Piece<'t>> {
        let mut pieces = Vec::new();
        let mut done = 0;
        for (at, _) in text.match_indices('<') {
            if let Some((tag, piece)) = Self::TAGS.iter().find(|(tag, _)| text[at..].starts_with(tag)) {
                pieces.extend([Piece::Text(&text[done..at]), *piece]);
                done = at + tag.len();
            }
        }
        pieces.push(Piece::Text(&text[done..]));
        pieces.retain(|piece| !matches!(piece, Piece::Text(text) if strip(text).is_empty()));
        pieces
    }
}

/// Where in the protocol a response is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Start,
    In(Tag),
    After(Tag),
}

impl Place {
    /// Inside a tag; what follows a closed action still belongs to the think around it.
    fn holds_text(self) -> bool {
        matches!(self, Place::In(_) | Place::After(Tag::Action))
    }

    /// The place behind a tag, if the tag may stand here.
    fn follow(self, piece: Piece<'_>) -> Option<Self> {
        use Place::{After, In, Start};
        let allowed = match piece {
            Piece::Open(Tag::Think) => {
                matches!(self, Start | After(Tag::Information) | After(Tag::Action))
            }
            Piece::Close(Tag::Think) => matches!(self, In(Tag::Think) | After(Tag::Action)),
            Piece::Open(Tag::Search | Tag::Answer) => self == After(Tag::Think),
            Piece::Open(Tag::Information) => self == After(Tag::Search),
            Piece::Open(Tag::Action) => self == In(Tag::Think),
            Piece::Close(tag) => self == In(tag),
            Piece::Text(_) => false,
        };
        match piece {
            Piece::Open(tag) if allowed => Some(In(tag)),
            Piece::Close(tag) if allowed => Some(After(tag)),
            _ => None,
        }
    }
}

/// Counts while it reads.
#[derive(Default)]
struct Reader {
    place: Place,
    tags: u32,
    tags_in_order: u32,
    seen: [[bool; 2]; 3],
    unclosed: [u32; 3],
    /// Characters, as Python counts them: code points.
    inside: usize,
    outside: usize,
}

impl Reader {
    fn read(&mut self, piece: Piece<'_>) {
        let (tag, closes) = match piece {
            Piece::Text(text) => return self.read_text(text),
            Piece::Open(tag) => (tag, false),
            Piece::Close(tag) => (tag, true),
        };
        let next = self.place.follow(piece);
        self.place = next.unwrap_or(self.place);
        if tag != Tag::Information {
            self.tags += 1;
            self.tags_in_order += u32::from(next.is_some());
        }
        let scored = [Tag::Think, Tag::Search, Tag::Answer];
        if let Some(i) = scored.iter().position(|&scored| scored == tag) {
            self.seen[i][usize::from(closes)] = true;
            self.unclosed[i] = if closes { self.unclosed[i].saturating_sub(1) } else { self.unclosed[i] + 1 };
        }
    }

    fn read_text(&mut self, text: &str) {
        let chars = text.chars().count();
        match self.place {
            Place::In(Tag::Information) => {}
            place if place.holds_text() => self.inside += chars,
            _ => self.outside += chars,
        }
    }

    fn score(&self) -> FormatScore {
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let tags = f64::from(self.tags);
        let seen = self.seen.iter().flatten().filter(|seen| **seen).count();
        let unclosed = f64::from(self.unclosed.iter().sum::<u32>());
        let levels = [
            seen as f64 / 6.0,
            if self.tags > 0 { 1.0 - unclosed / tags } else { 0.0 },
            ratio(self.inside as f64, (self.inside + self.outside) as f64),
            ratio(f64::from(self.tags_in_order), tags),
        ];
        let mut factors = levels;
        for k in 1..4 {
            factors[k] = (0.01 + factors[k - 1].powi(5)) * levels[k];
        }
        let total = 0.05 * factors[0] + 0.15 * factors[1] + 0.25 * factors[2] + 0.55 * factors[3];
        FormatScore { levels, factors, total }
    }
}
