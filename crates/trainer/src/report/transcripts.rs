//! The transcripts that the page shows token by token: which ones, and in what shape.

use super::run::Run;
use super::shown::Shown;
use crate::error::TrainError;
use crate::rollout_log::Line;
use crate::sampler::Origin;
use serde::Serialize;
use std::collections::BTreeMap;

/// Steps that are shown: the first, the last, and those between in which probes rescued most.
const MAX_STEPS: usize = 12;
/// Groups of a step.
const MAX_GROUPS: usize = 16;
/// Bytes of all groups together, as they stand in the page.
const MAX_BYTES: usize = 3_000_000;

/// What the viewer offers.
#[derive(Serialize)]
pub(super) struct Viewer {
    pub(super) steps: Vec<Step>,
    /// Steps and groups that were logged.
    pub(super) logged_steps: usize,
    pub(super) groups_in_steps: usize,
    pub(super) groups_shown: usize,
}

#[derive(Serialize)]
pub(super) struct Step {
    step: usize,
    groups: Vec<Group>,
}

/// The transcripts of one question.
#[derive(Serialize)]
struct Group {
    id: String,
    source: String,
    question: String,
    golds: Vec<String>,
    prompt: String,
    /// Whether all originals failed, and whether a probe then did not.
    dead_end: bool,
    rescued: bool,
    rollouts: Vec<Shown>,
    #[serde(skip)]
    place: usize,
}

impl Viewer {
    /// # Errors
    /// The file system's, with the path.
    pub(super) fn of(run: &mut Run) -> Result<Self, TrainError> {
        let logged = run.logged_steps("");
        let rescued = |step: usize| {
            let line =
                run.metrics.iter().find(|line| line.step() == step && line.get("rex/rescued").is_some());
            line.and_then(|line| line.get("rex/rescued")).unwrap_or_default()
        };
        let mut pending = Vec::new();
        let mut groups_in_steps = 0;
        for step in chosen_steps(&logged, rescued) {
            let lines = run.rollouts(&run.dir.step_rollouts(step))?;
            let mut groups: Vec<Group> = by_question(lines).into_iter().enumerate().map(Group::new).collect();
            groups_in_steps += groups.len();
            groups.sort_by_key(|group| std::cmp::Reverse(group.interest()));
            groups.truncate(MAX_GROUPS);
            pending.push((step, groups));
        }
        let steps = within_budget(pending, MAX_BYTES);
        let groups_shown = steps.iter().map(|step| step.groups.len()).sum();
        Ok(Self { steps, logged_steps: logged.len(), groups_in_steps, groups_shown })
    }
}

impl Group {
    fn new((place, mut lines): (usize, Vec<Line>)) -> Self {
        let originals: Vec<Line> = lines.extract_if(.., |line| line.origin == Origin::Original).collect();
        let parent = |probe: &Line| originals.iter().find(|line| line.sample == probe.sample);
        let dead_end = !originals.iter().any(|line| line.scores.is_correct());
        let rescued = dead_end && lines.iter().any(|line| line.scores.is_correct());
        let shown = originals.iter().map(|line| Shown::new(line, None));
        let rollouts = shown.chain(lines.iter().map(|probe| Shown::new(probe, parent(probe)))).collect();
        let first = originals.first().or(lines.first());
        let of = |field: fn(&Line) -> String| first.map(field).unwrap_or_default();
        Self {
            id: of(|line| line.id.clone()),
            source: of(|line| line.data_source.clone()),
            question: of(|line| line.question.clone()),
            golds: first.map(|line| line.golden_answers.clone()).unwrap_or_default(),
            prompt: of(Shown::prompt),
            dead_end,
            rescued,
            rollouts,
            place,
        }
    }

    /// What is most worth seeing comes first: a rescue, then any probe, then right beside wrong answers.
    fn interest(&self) -> (bool, bool, bool) {
        let probed = self.rollouts.iter().any(|rollout| rollout.origin == Origin::Probe);
        let right = self.rollouts.iter().filter(|rollout| rollout.em == 1.0).count();
        (self.rescued, probed, right > 0 && right < self.rollouts.len())
    }
}

/// The lines of each question, in order; older logs, which do not number them, by the question's id.
fn by_question(lines: Vec<Line>) -> Vec<Vec<Line>> {
    let mut groups: BTreeMap<(Option<usize>, String), Vec<Line>> = BTreeMap::new();
    for line in lines {
        groups.entry((line.group, line.id.clone())).or_default().push(line);
    }
    groups.into_values().collect()
}

fn chosen_steps(logged: &[usize], rescued: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut order = logged.to_vec();
    let (first, last) = (logged.first(), logged.last());
    // A stable sort: of equals the earlier.
    order.sort_by(|&a, &b| rescued(b).total_cmp(&rescued(a)));
    order.sort_by_key(|step| Some(step) != first && Some(step) != last);
    order.truncate(MAX_STEPS);
    order.sort_unstable();
    order
}

/// Every step's first group, then every step's second, while there is room.
fn within_budget(mut pending: Vec<(usize, Vec<Group>)>, budget: usize) -> Vec<Step> {
    let mut steps: Vec<Step> =
        pending.iter().map(|(step, _)| Step { step: *step, groups: Vec::new() }).collect();
    let mut used = 0;
    for _ in 0..MAX_GROUPS {
        for ((_, groups), step) in
            pending.iter_mut().zip(&mut steps).filter(|((_, groups), _)| !groups.is_empty())
        {
            let group = groups.remove(0);
            used += serde_json::to_string(&group).expect("plain data").len();
            if used <= budget {
                step.groups.push(group);
            }
        }
    }
    steps.iter_mut().for_each(|step| step.groups.sort_by_key(|group| group.place));
    steps.retain(|step| !step.groups.is_empty());
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_last_and_rescues_are_shown() {
        let logged: Vec<usize> = (1..=60).collect();
        let steps = chosen_steps(&logged, |step| if step % 10 == 5 { step as f64 } else { 0.0 });
        assert_eq!(steps, [1, 2, 3, 4, 5, 6, 15, 25, 35, 45, 55, 60]);
        assert_eq!(chosen_steps(&[3], |_| f64::NAN), [3]);
        assert!(chosen_steps(&[], |_| 0.0).is_empty());
    }
}
