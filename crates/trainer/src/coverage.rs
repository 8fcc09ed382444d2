//! Corpus coverage: how many questions a corpus can answer at all, and how many its best passages can.
//!
//! Holes in a corpus explain more of an exact match than algorithms do, and cost minutes to find before a run rather than days
//! after it.

use crate::data::Question;
use crate::error::TrainError;
use aho_corasick::AhoCorasick;
use rayon::prelude::*;
use rex_rollout::retrieval::{Bm25Index, Document, IndexError};
use rex_rollout::rewards::normalize;
use rex_rollout::{Passage, Retriever};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

/// The numbers of best passages that are looked at.
pub const CUTS: [usize; 2] = [3, 10];

/// Of one question file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    pub questions: usize,
    /// Questions whose only answers are yes or no; every text would answer them.
    pub yes_no: usize,
    /// Questions, those aside, of which some answer occurs in some passage: as a sequence of words after the normalisation of
    /// exact match.
    pub answer_in_corpus: usize,
    /// Questions all of whose supporting passages (`metadata.supporting_ids`, or else `supporting_titles`) are in the corpus.
    pub gold_in_corpus: usize,
    /// By retriever.
    pub found: BTreeMap<String, Found>,
}

/// What a retriever finds, at each of [`CUTS`].
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Found {
    /// Questions with an answer in one of the best passages.
    pub answer: [usize; CUTS.len()],
    /// Mean share of the supporting passages among the best, over the questions of `gold_in_corpus`; 0 where there are none.
    pub recall: [f64; CUTS.len()],
    /// Questions of `gold_in_corpus` with at least one supporting passage among the best.
    pub any: [usize; CUTS.len()],
    /// Questions of `gold_in_corpus` with every one.
    pub all: [usize; CUTS.len()],
}

/// Reads the whole corpus of `index` once, and asks every retriever every question.
///
/// `progress` is told what is going on, how much of it is done, and of how much.
///
/// # Errors
/// A damaged index, or a retriever's error.
pub fn coverage(
    index: &Bm25Index,
    retrievers: &[(&str, &dyn Retriever)],
    files: &[Vec<Question>],
    progress: &mut dyn FnMut(&str, usize, usize),
) -> Result<Vec<Coverage>, TrainError> {
    let wanted: Vec<Vec<Wanted>> = files.iter().map(|file| file.iter().map(Wanted::of).collect()).collect();
    let corpus = Corpus::scan(index, wanted.iter().flatten(), progress)?;
    let total = retrievers.len() * files.iter().map(Vec::len).sum::<usize>();
    let mut done = 0;
    let mut asked = |count| {
        done += count;
        progress("asking", done, total);
    };
    let mut covered = Vec::with_capacity(files.len());
    for (questions, wanted) in files.iter().zip(&wanted) {
        let mut found = BTreeMap::new();
        for (name, retriever) in retrievers {
            found.insert(name.to_string(), ask(*retriever, questions, wanted, &corpus, &mut asked)?);
        }
        covered.push(Coverage {
            questions: questions.len(),
            yes_no: wanted.iter().filter(|wanted| wanted.yes_no).count(),
            answer_in_corpus: wanted.iter().filter(|wanted| corpus.answers(wanted)).count(),
            gold_in_corpus: wanted.iter().filter(|wanted| corpus.has_gold(wanted)).count(),
            found,
        });
    }
    Ok(covered)
}

fn ask(
    retriever: &dyn Retriever,
    questions: &[Question],
    wanted: &[Wanted],
    corpus: &Corpus<'_>,
    asked: &mut dyn FnMut(usize),
) -> Result<Found, TrainError> {
    /// Questions in one call.
    const BATCH: usize = 256;
    let most = CUTS.into_iter().max().unwrap_or_default();
    let mut found = Found::default();
    let mut golden = 0;
    for (questions, wanted) in questions.chunks(BATCH).zip(wanted.chunks(BATCH)) {
        let queries: Vec<&str> = questions.iter().map(|question| question.question.as_str()).collect();
        for (wanted, passages) in wanted.iter().zip(retriever.retrieve(&queries, most)?) {
            let has_gold = corpus.has_gold(wanted);
            golden += usize::from(has_gold);
            for (cut, k) in CUTS.into_iter().enumerate() {
                let best = &passages[..k.min(passages.len())];
                found.answer[cut] += usize::from(wanted.is_answered(best));
                if has_gold {
                    let share = wanted.gold_among(best);
                    found.recall[cut] += share;
                    found.any[cut] += usize::from(share > 0.0);
                    found.all[cut] += usize::from(share == 1.0);
                }
            }
        }
        asked(questions.len());
    }
    found.recall = found.recall.map(|sum| if golden > 0 { sum / golden as f64 } else { 0.0 });
    Ok(found)
}

/// What would help with a question.
struct Wanted {
    yes_no: bool,
    /// Normalised, between spaces; none for a yes/no question.
    answers: Vec<String>,
    gold: Gold,
}

enum Gold {
    Ids(Vec<String>),
    Titles(Vec<String>),
}

impl Wanted {
    fn of(question: &Question) -> Self {
        let normalized: Vec<String> =
            question.golden_answers.iter().map(|answer| normalize(answer)).collect();
        let yes_no = normalized.iter().all(|answer| answer == "yes" || answer == "no");
        let answers =
            normalized.into_iter().filter(|answer| !yes_no && !answer.is_empty()).map(spaced).collect();
        let strings = |field: &str| -> Vec<String> {
            let list = question.metadata.get(field).and_then(|list| list.as_array());
            let distinct: HashSet<&str> =
                list.into_iter().flatten().filter_map(|item| item.as_str()).collect();
            distinct.into_iter().map(str::to_string).collect()
        };
        let ids = strings("supporting_ids");
        let gold = if ids.is_empty() { Gold::Titles(strings("supporting_titles")) } else { Gold::Ids(ids) };
        Self { yes_no, answers, gold }
    }

    fn is_answered(&self, passages: &[Passage]) -> bool {
        passages.iter().any(|passage| {
            let text = spaced(normalize(&passage.contents));
            self.answers.iter().any(|answer| text.contains(answer))
        })
    }

    /// Share of the supporting passages among these.
    fn gold_among(&self, passages: &[Passage]) -> f64 {
        let share = |gold: &[String], name: fn(&Passage) -> &str| {
            let found =
                gold.iter().filter(|gold| passages.iter().any(|passage| name(passage) == **gold)).count();
            found as f64 / gold.len() as f64
        };
        match &self.gold {
            Gold::Ids(ids) => share(ids, |passage| &passage.id),
            Gold::Titles(titles) => share(titles, |passage| bare(passage.title())),
        }
    }
}

/// What of all that is wanted the corpus holds.
struct Corpus<'w> {
    answers: HashMap<&'w str, bool>,
    ids: HashMap<&'w str, bool>,
    titles: HashMap<&'w str, bool>,
}

impl<'w> Corpus<'w> {
    fn scan(
        index: &Bm25Index,
        wanted: impl Iterator<Item = &'w Wanted>,
        progress: &mut dyn FnMut(&str, usize, usize),
    ) -> Result<Self, TrainError> {
        /// Passages between two looks at the progress.
        const BATCH: usize = 4096;
        let (mut answers, mut ids, mut titles) = (HashSet::new(), HashSet::new(), HashSet::new());
        for wanted in wanted {
            answers.extend(wanted.answers.iter().map(String::as_str));
            match &wanted.gold {
                Gold::Ids(gold) => ids.extend(gold.iter().map(String::as_str)),
                Gold::Titles(gold) => titles.extend(gold.iter().map(String::as_str)),
            }
        }
        let answers: Vec<&str> = answers.into_iter().collect();
        let seen: Vec<AtomicBool> = answers.iter().map(|_| AtomicBool::new(false)).collect();
        let found = |set: HashSet<&'w str>| -> HashMap<&'w str, AtomicBool> {
            set.into_iter().map(|text| (text, AtomicBool::new(false))).collect()
        };
        let (ids, titles) = (found(ids), found(titles));
        let automaton = AhoCorasick::new(&answers).map_err(TrainError::Answers)?;
        let look = |document: Result<Document, IndexError>| -> Result<(), IndexError> {
            let document = document?;
            let mark = |seen: Option<&AtomicBool>| {
                if let Some(seen) = seen {
                    seen.store(true, Ordering::Relaxed);
                }
            };
            mark(ids.get(document.id.as_str()));
            let title = document.contents.lines().next().unwrap_or_default();
            mark(titles.get(bare(title)));
            for found in automaton.find_overlapping_iter(&spaced(normalize(&document.contents))) {
                mark(seen.get(found.pattern().as_usize()));
            }
            Ok(())
        };
        let mut documents = index.documents();
        let mut read = 0;
        loop {
            let batch: Vec<_> = documents.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            read += batch.len();
            batch.into_par_iter().try_for_each(look)?;
            progress("reading the corpus", read, index.len() as usize);
        }
        let flags = |map: HashMap<&'w str, AtomicBool>| {
            map.into_iter().map(|(text, seen)| (text, seen.into_inner())).collect()
        };
        let answers = answers.into_iter().zip(seen).map(|(text, seen)| (text, seen.into_inner())).collect();
        Ok(Self { answers, ids: flags(ids), titles: flags(titles) })
    }

    fn answers(&self, wanted: &Wanted) -> bool {
        wanted.answers.iter().any(|answer| self.answers[answer.as_str()])
    }

    /// Whether all of a question's supporting passages are there, where it names any.
    fn has_gold(&self, wanted: &Wanted) -> bool {
        let (gold, there) = match &wanted.gold {
            Gold::Ids(ids) => (ids, &self.ids),
            Gold::Titles(titles) => (titles, &self.titles),
        };
        !gold.is_empty() && gold.iter().all(|text| there[text.as_str()])
    }
}

/// Between spaces, so that whole words match.
fn spaced(text: String) -> String {
    format!(" {text} ")
}

/// A title without the quotes around it.
fn bare(title: &str) -> &str {
    title.strip_prefix('"').and_then(|title| title.strip_suffix('"')).unwrap_or(title)
}
