//! The comparison in words and tables, for Markdown and HTML alike.

use super::bootstrap::Estimate;
use super::comparison::{ArmResult, Comparison, Measures};
use crate::evaluate::ALL;
use crate::quantity::{count, duration};
use serde::Serialize;
use std::fmt::Write;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    pub title: String,
    /// How to read it.
    pub note: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Rows of aligned columns, for a terminal.
    pub fn columns(&self) -> String {
        let rows = || std::iter::once(&self.head).chain(&self.rows);
        let width = |column: usize| rows().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        rows().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Marks an interval without zero.
const MARK: &str = "*";
const NONE: &str = "–";

pub fn tables(comparison: &Comparison) -> Vec<Table> {
    let mut tables = vec![scores(comparison)];
    tables.extend(differences(comparison));
    tables.push(course(comparison));
    tables.push(arms(comparison));
    tables
}

/// Everything as one Markdown document.
pub fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("# Comparison on {}\n", comparison.questions.join(", "));
    for Table { title, note, head, rows } in tables(comparison) {
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        write!(text, "\n## {title}\n\n{note}\n\n").expect("writing to a string");
        text += &row(&head);
        text += &format!("|{}\n", "---|".repeat(head.len()));
        rows.iter().for_each(|cells| text += &row(cells));
    }
    text
}

fn scores(comparison: &Comparison) -> Table {
    let cells = |measures: &Measures<Estimate>| by_source(comparison, measures, &score);
    let row = |arm: &ArmResult| line(arm, arm.runs.len(), cells(&arm.measures));
    Table {
        title: format!("Exact match at {} generated tokens", count(comparison.tokens)),
        note: "Percent, mean over seeds [95 % bootstrap interval], at the most generated tokens that every run reached; \
               the last column is the mean over all tokens up to there (the area under the curve). Intervals are over seeds, \
               for these questions; over few seeds they are somewhat too narrow."
            .to_string(),
        head: head(comparison),
        rows: comparison.arms.iter().map(row).collect(),
    }
}

fn differences(comparison: &Comparison) -> Option<Table> {
    let baseline = comparison.baseline.as_ref()?;
    let rows: Vec<Vec<String>> = comparison
        .arms
        .iter()
        .filter_map(|arm| {
            let difference = arm.difference.as_ref()?;
            let cells = by_source(comparison, &difference.measures, &change);
            Some(line(arm, difference.seeds.len(), cells))
        })
        .collect();
    (!rows.is_empty()).then(|| Table {
        title: format!("Difference to {baseline}"),
        note: format!(
            "Percentage points, paired by seed [95 % bootstrap interval]; {MARK} marks an interval without zero."
        ),
        head: head(comparison),
        rows,
    })
}

fn course(comparison: &Comparison) -> Table {
    let row = |arm: &ArmResult| {
        let (first, last) = arm.dead_ends.unzip();
        let share = |share: Option<Estimate>| share.map_or(NONE.to_string(), |share| score(&share));
        let cells = [
            share(first),
            share(last),
            share(arm.rescued),
            count(arm.generated.mean),
            duration(arm.seconds.mean),
        ];
        line(arm, arm.runs.len(), cells.to_vec())
    };
    Table {
        title: "Training".to_string(),
        note: "Dead ends are questions whose originals all fail, in percent of a step's questions (the first and the last \
               5 steps); rescued, the percentage of them that a probe solved; tokens and time are means of whole runs."
            .to_string(),
        head: ["arm", "seeds", "dead ends, first", "dead ends, last", "rescued", "generated tokens", "time"]
            .map(str::to_string)
            .to_vec(),
        rows: comparison.arms.iter().map(row).collect(),
    }
}

fn arms(comparison: &Comparison) -> Table {
    let row = |ArmResult { arm, .. }: &ArmResult| {
        vec![arm.name.clone(), arm.about.clone(), arm.overrides.join(" ")]
    };
    Table {
        title: "Arms".to_string(),
        note: "What each arm changes in the configuration.".to_string(),
        head: ["arm", "what it is", "overrides"].map(str::to_string).to_vec(),
        rows: comparison.arms.iter().map(row).collect(),
    }
}

fn head(comparison: &Comparison) -> Vec<String> {
    let sources = comparison.sources.iter().cloned();
    ["arm".to_string(), "seeds".to_string()]
        .into_iter()
        .chain(sources)
        .chain(["mean over tokens".to_string()])
        .collect()
}

fn line(arm: &ArmResult, seeds: usize, cells: Vec<String>) -> Vec<String> {
    [arm.arm.name.clone(), seeds.to_string()].into_iter().chain(cells).collect()
}

fn by_source(
    comparison: &Comparison,
    measures: &Measures<Estimate>,
    cell: &dyn Fn(&Estimate) -> String,
) -> Vec<String> {
    let at_tokens = comparison.sources.iter().map(|source| cell(&measures.em[source]));
    at_tokens.chain(measures.mean_em.get(ALL).map(cell)).collect()
}

fn score(estimate: &Estimate) -> String {
    let Estimate { mean, interval } = estimate;
    match interval {
        Some((low, high)) => format!("{:.1} [{:.1}, {:.1}]", 100.0 * mean, 100.0 * low, 100.0 * high),
        None => format!("{:.1}", 100.0 * mean),
    }
}

fn change(estimate: &Estimate) -> String {
    let Estimate { mean, interval } = estimate;
    let mark = if estimate.excludes_zero() { format!(" {MARK}") } else { String::new() };
    match interval {
        Some((low, high)) => {
            format!("{:+.1} [{:+.1}, {:+.1}]{mark}", 100.0 * mean, 100.0 * low, 100.0 * high)
        }
        None => format!("{:+.1}", 100.0 * mean),
    }
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::{arms, run};
    use super::*;
    use crate::compare::compare;

    #[test]
    fn a_document() {
        let runs = [
            run(0, 0, 1000.0, &[(0.1, 0.2), (0.5, 0.6)]),
            run(0, 1, 1000.0, &[(0.1, 0.2), (0.5, 0.6)]),
            run(1, 0, 1000.0, &[(0.1, 0.2), (0.3, 0.6)]),
            run(1, 1, 1000.0, &[(0.1, 0.2), (0.2, 0.7)]),
        ];
        let text = markdown(&compare(&arms(), &runs, "grpo", &[]).unwrap());
        for expected in [
            "## Exact match at 1,000 generated tokens",
            "| arm | seeds | all | 1-hop | mean over tokens |",
            "|---|---|---|---|---|",
            "| grpo | 2 | 25.0 [20.0, 30.0] | 65.0 [60.0, 70.0] | 17.5 [15.0, 20.0] |",
            "## Difference to grpo",
            "| rex | 2 | +25.0 [+20.0, +30.0] * | -5.0 [-10.0, +0.0] | +12.5 [+10.0, +15.0] * |",
            "| rex | 2 | 50.0 [50.0, 50.0] | 50.0 [50.0, 50.0] | 25.0 [25.0, 25.0] | 1,000 | 3 s |",
            "| grpo | no probes | algorithm.name=grpo probe.probability=0 |",
        ] {
            assert!(text.contains(expected), "`{expected}` is missing in:\n{text}");
        }
    }

    #[test]
    fn columns_are_aligned() {
        let row = |cells: [&str; 2]| cells.map(str::to_string).to_vec();
        let (title, note) = (String::new(), String::new());
        let table = Table {
            title,
            note,
            head: row(["arm", "EM"]),
            rows: vec![row(["uniform", "–"]), row(["a", "1"])],
        };
        assert_eq!(table.columns(), "arm      EM\nuniform  –\na        1");
    }

    #[test]
    fn one_seed_has_no_intervals_and_one_arm_no_differences() {
        let text =
            markdown(&compare(&arms(), &[run(0, 0, 10.0, &[(0.1, 0.2), (0.5, 0.6)])], "grpo", &[]).unwrap());
        assert!(text.contains("| rex | 1 | 50.0 | 60.0 | 30.0 |"), "{text}");
        assert!(!text.contains("Difference"), "{text}");
    }
}
