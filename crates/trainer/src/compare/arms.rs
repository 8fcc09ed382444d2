//! What is compared: names for sets of overrides.

use serde::Serialize;

/// One algorithm: what it changes in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Arm {
    pub name: String,
    /// In one line.
    pub about: String,
    /// `key=value` words, over those of the user.
    pub overrides: Vec<String>,
}

/// The arms that are known by name: name, explanation, overrides.
pub const BUILT_IN: &[(&str, &str, &[&str])] = &[
    ("rex", "REX-RAG: probes off dead ends, corrected and filtered", &["algorithm.name=rex"]),
    ("grpo", "no probes", &["algorithm.name=grpo", "probe.probability=0"]),
    (
        "rex-uncorrected",
        "REX-RAG without policy correction: probes count as the policy's own",
        &["algorithm.name=rex", "algorithm.correction=none"],
    ),
    (
        "rex-unfiltered",
        "REX-RAG without trajectory filter: every probe is kept",
        &["algorithm.name=rex", "probe.filter=none"],
    ),
    (
        "rex-coarse",
        "REX-RAG with the coarse density: an exploration prompt's first token has 1/|pool|, the others 1",
        &["algorithm.name=rex", "probe.density=coarse"],
    ),
    (
        "uniform",
        "uniform over-sampling: in place of each probe a transcript from scratch, of a random question",
        &["algorithm.name=rex", "probe.start=scratch"],
    ),
];

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArmError {
    #[error("no arm `{name}`: the arms are {}; make one by --arm {name}:key=value,key=value", known())]
    Unknown { name: String },
    #[error("`{text}` is not an arm: write NAME:key=value,key=value")]
    Malformed { text: String },
    #[error("two arms are called `{name}`")]
    Twice { name: String },
    #[error("the baseline `{name}` is not among the arms")]
    Baseline { name: String },
    #[error("`{name}` cannot name an arm, which is a folder, too: use letters, digits, `-` and `_`")]
    Name { name: String },
}

fn known() -> String {
    BUILT_IN.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ")
}

impl Arm {
    /// # Errors
    /// [`ArmError::Unknown`].
    pub fn built_in(name: &str) -> Result<Self, ArmError> {
        let (name, about, overrides) = BUILT_IN
            .iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| ArmError::Unknown { name: name.to_string() })?;
        let overrides = overrides.iter().map(|word| word.to_string()).collect();
        Ok(Self { name: name.to_string(), about: about.to_string(), overrides })
    }

    /// A user's arm, `NAME:key=value,key=value`. Commas inside brackets and quotes belong to a value.
    ///
    /// # Errors
    /// Another form, or a name that is not one word.
    pub fn parse(text: &str) -> Result<Self, ArmError> {
        let malformed = || ArmError::Malformed { text: text.to_string() };
        let (name, words) = text.split_once(':').ok_or_else(malformed)?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
            return Err(ArmError::Name { name: name.to_string() });
        }
        let overrides = split(words);
        if overrides.iter().any(|word| !word.contains('=')) {
            return Err(malformed());
        }
        Ok(Self { name: name.to_string(), about: overrides.join(", "), overrides })
    }
}

/// At commas outside of brackets and quotes.
fn split(words: &str) -> Vec<String> {
    let (mut parts, mut depth, mut quote) = (vec![String::new()], 0, None);
    for c in words.chars() {
        match (quote, c) {
            (None, ',') if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth -= 1,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
        parts.last_mut().expect("never empty").push(c);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn every_built_in_arm_is_a_valid_configuration_of_its_own() {
        let configs: Vec<Config> = BUILT_IN
            .iter()
            .map(|(name, ..)| Config::load(None, &Arm::built_in(name).unwrap().overrides).unwrap())
            .collect();
        for (i, config) in configs.iter().enumerate() {
            assert!(configs[..i].iter().all(|other| other != config), "{}", BUILT_IN[i].0);
        }
    }

    #[test]
    fn a_users_arm() {
        let arm =
            Arm::parse(r#"warm:rollout.temperature=1.2,data.train_files=["a,b", 'c'],probe.on=x"#).unwrap();
        assert_eq!(arm.name, "warm");
        let expected = ["rollout.temperature=1.2", r#"data.train_files=["a,b", 'c']"#, "probe.on=x"];
        assert_eq!(arm.overrides, expected);
    }

    #[test]
    fn faults() {
        let check = |text: &str, expected: &str| {
            let message = Arm::parse(text).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        };
        check("warm", "is not an arm");
        check("warm:", "is not an arm");
        check("warm:a=1,b", "is not an arm");
        check("a/b:c=1", "`a/b` cannot name an arm");
        check(":c=1", "cannot name an arm");
        let message = Arm::built_in("ppo").unwrap_err().to_string();
        assert!(message.contains("no arm `ppo`") && message.contains("rex-coarse"), "{message}");
    }
}
