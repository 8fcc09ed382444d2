//! What names and facts are made of.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::fmt;
use std::str::FromStr;

/// No two words share a stem, so a search engine tells them apart.
pub const FIRST_NAMES: [&str; 48] = [
    "Ama", "Beto", "Bina", "Caro", "Daku", "Deli", "Dova", "Elmo", "Enna", "Fado", "Fila", "Gemo", "Gusa",
    "Hani", "Heko", "Ilda", "Jaro", "Jemu", "Kalo", "Keva", "Kibo", "Lemo", "Lusa", "Mabu", "Mela", "Miro",
    "Nadu", "Neka", "Nilo", "Odra", "Olin", "Pago", "Peru", "Pilu", "Rado", "Rena", "Rilo", "Saku", "Sela",
    "Sivo", "Tamo", "Teku", "Tola", "Umi", "Vana", "Vero", "Yuna", "Zeba",
];
pub const LAST_NAMES: [&str; 48] = [
    "Arbo", "Balta", "Bendo", "Brola", "Cando", "Corvu", "Dalmo", "Dorna", "Estra", "Falku", "Fento",
    "Galba", "Gorvu", "Grema", "Halpo", "Hunda", "Islo", "Jasta", "Jolmo", "Kandu", "Kelpa", "Kurno",
    "Lasto", "Lindu", "Lorba", "Malvo", "Menta", "Morku", "Nalto", "Norda", "Olvo", "Palmu", "Pento",
    "Prasa", "Ralvo", "Rosko", "Sarlu", "Stola", "Sunta", "Talbo", "Torma", "Trevu", "Ulmo", "Valdo",
    "Verna", "Vosta", "Zalmo", "Zurna",
];

/// A person's name, of two words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    first: u8,
    last: u8,
}

impl Name {
    pub fn first(self) -> &'static str {
        FIRST_NAMES[usize::from(self.first)]
    }

    pub fn last(self) -> &'static str {
        LAST_NAMES[usize::from(self.last)]
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

    /// The names of this split: 80 % of all, or 10 %.
    pub fn names(self) -> Vec<Name> {
        let all = |list: &[&str]| 0..list.len() as u8;
        let mut names: Vec<Name> = all(&FIRST_NAMES)
            .flat_map(|first| all(&LAST_NAMES).map(move |last| Name { first, last }))
            .collect();
        names.shuffle(&mut ChaCha8Rng::seed_from_u64(0));
        let tenth = names.len() / 10;
        let range = match self {
            Self::Test => 0..tenth,
            Self::Validation => tenth..2 * tenth,
            Self::Train => 2 * tenth..names.len(),
        };
        names[range].to_vec()
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
    fn every_name_is_in_one_split() {
        let all: Vec<Name> = Split::ALL.into_iter().flat_map(Split::names).collect();
        assert_eq!((all.len(), all.iter().collect::<HashSet<_>>().len()), (48 * 48, 48 * 48));
        for split in Split::ALL {
            assert_eq!(split.to_string().parse(), Ok(split));
        }
        assert_eq!("dev".parse::<Split>(), Err("expected train, validation or test".to_string()));
    }

    #[test]
    fn no_word_is_both_a_first_and_a_last_name() {
        let words: HashSet<_> = FIRST_NAMES.iter().chain(&LAST_NAMES).collect();
        assert_eq!(words.len(), 96);
    }
}
