//! Validation questions as the policy answered them at the first and at the last evaluation.

use super::run::Run;
use super::shown::Shown;
use crate::error::TrainError;
use serde::Serialize;

/// Questions that are shown.
const MAX_SAMPLES: usize = 24;

#[derive(Default, Serialize)]
pub(super) struct Samples {
    /// The steps after which the two evaluations were made; equal where there was only one.
    pub(super) steps: [usize; 2],
    pub(super) rows: Vec<Sample>,
    /// Logged questions that are not shown.
    pub(super) left_out: usize,
}

#[derive(Serialize)]
pub(super) struct Sample {
    source: String,
    question: String,
    golds: Vec<String>,
    before: Shown,
    after: Shown,
}

impl Samples {
    /// # Errors
    /// The file system's, with the path.
    pub(super) fn of(run: &mut Run) -> Result<Self, TrainError> {
        let logged = run.logged_steps("val-");
        let (Some(&first), Some(&last)) = (logged.first(), logged.last()) else { return Ok(Self::default()) };
        let before = run.rollouts(&run.dir.val_rollouts(first))?;
        let mut after = run.rollouts(&run.dir.val_rollouts(last))?;
        let mut rows = Vec::new();
        for early in &before {
            let same = |line: &crate::rollout_log::Line| {
                (&line.id, &line.data_source, &line.question)
                    == (&early.id, &early.data_source, &early.question)
            };
            let Some(place) = after.iter().position(same) else { continue };
            let late = after.remove(place);
            rows.push(Sample {
                source: late.data_source.clone(),
                question: late.question.clone(),
                golds: late.golden_answers.clone(),
                before: Shown::new(early, None),
                after: Shown::new(&late, None),
            });
        }
        rows.sort_by_key(Sample::rank);
        let left_out = rows.len().saturating_sub(MAX_SAMPLES);
        rows.truncate(MAX_SAMPLES);
        Ok(Self { steps: [first, last], rows, left_out })
    }
}

impl Sample {
    /// What training changed comes first: learnt, then unlearnt, then another answer.
    fn rank(&self) -> u8 {
        match (self.before.em == 1.0, self.after.em == 1.0) {
            (false, true) => 0,
            (true, false) => 1,
            _ if self.before.answer != self.after.answer => 2,
            _ => 3,
        }
    }
}
