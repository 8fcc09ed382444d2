//! What names and facts are made of.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// Both halves of every name. No two share a stem, so a search engine tells them apart.
pub const NAME_WORDS: [&str; 48] = [
    "Bako", "Belu", "Bimo", "Dara", "Dovi", "Duna", "Fero", "Fila", "Fomu", "Gado", "Gila", "Goru", "Hani",
    "Heko", "Hulo", "Jaro", "Jemu", "Jiva", "Kalo", "Kibu", "Kora", "Lemo", "Lusa", "Lavo", "Mabu", "Miro",
    "Muna", "Neka", "Nilo", "Nuvo", "Pago", "Pilu", "Pova", "Rilo", "Ruma", "Rado", "Saku", "Sunta", "Sivo",
    "Tamo", "Teku", "Tola", "Vanu", "Vero", "Vigo", "Zaro", "Zeba", "Zimu",
];

/// A person's name: two different words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    first: u8,
    last: u8,
}

impl Name {
    pub fn first(self) -> &'static str {
        NAME_WORDS[usize::from(self.first)]
    }

    pub fn last(self) -> &'static str {
        NAME_WORDS[usize::from(self.last)]
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.first(), self.last())
    }
}

/// What one person can be to another. Every person has one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    Mother,
    Friend,
    Teacher,
    Boss,
}

impl Relation {
    pub const ALL: [Self; 4] = [Self::Mother, Self::Friend, Self::Teacher, Self::Boss];
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mother => "mother",
            Self::Friend => "friend",
            Self::Teacher => "teacher",
            Self::Boss => "boss",
        })
    }
}

/// Which worlds a name may appear in. The three have no name in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    Train,
    Validation,
    Test,
}

impl Split {
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// The names of this split: 80 % of all, or 10 %. A name and its reversal (`Rilo Sunta`, `Sunta Rilo`), which no bag
    /// of words can tell apart, are in the same one.
    pub fn names(self) -> Vec<Name> {
        let words = 0..NAME_WORDS.len() as u8;
        let mut pairs: Vec<[u8; 2]> = words.clone().flat_map(|a| (0..a).map(move |b| [a, b])).collect();
        pairs.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
        let tenth = pairs.len() / 10;
        let range = match self {
            Self::Test => 0..tenth,
            Self::Validation => tenth..2 * tenth,
            Self::Train => 2 * tenth..pairs.len(),
        };
        let both = |&[a, b]: &[u8; 2]| [Name { first: a, last: b }, Name { first: b, last: a }];
        pairs[range].iter().flat_map(both).collect()
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        })
    }
}

impl FromStr for Split {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let split = Self::ALL.into_iter().find(|split| split.to_string() == text);
        split.ok_or_else(|| "expected train, validation or test".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn splits_share_no_name_and_keep_reversals_together() {
        let mut seen = HashSet::new();
        for split in Split::ALL {
            let names: HashSet<Name> = split.names().into_iter().collect();
            assert!(
                names.iter().all(|&Name { first, last }| names.contains(&Name { first: last, last: first }))
            );
            assert!(names.iter().all(|name| seen.insert(*name)), "{split}");
            assert_eq!(split.to_string().parse(), Ok(split));
        }
        assert_eq!(seen.len(), 48 * 47);
        assert_eq!(Split::Test.names().len(), 224);
    }

    #[test]
    fn words_differ() {
        assert_eq!(NAME_WORDS.iter().collect::<HashSet<_>>().len(), NAME_WORDS.len());
    }
}
