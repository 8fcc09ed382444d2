//! Transcripts of one question form a group; their advantages are relative to each other.

use std::collections::BTreeMap;

/// The row numbers of each group, groups in order of their id.
pub(crate) fn members(groups: &[usize]) -> Vec<Vec<usize>> {
    let mut rows = BTreeMap::<usize, Vec<usize>>::new();
    for (row, &group) in groups.iter().enumerate() {
        rows.entry(group).or_default().push(row);
    }
    rows.into_values().collect()
}

/// Ids of the groups whose rewards are all equal: they carry no signal, and DAPO's dynamic sampling draws them
/// again (arXiv 2503.14476, section 3.2).
pub fn groups_without_spread(rewards: &[f64], groups: &[usize]) -> Vec<usize> {
    ids_where(rewards, groups, |all| all.windows(2).all(|pair| pair[0] == pair[1]))
}

/// Ids of the groups in which no transcript earned `threshold` or more: the dead ends of a step.
pub fn unrewarded_groups(rewards: &[f64], groups: &[usize], threshold: f64) -> Vec<usize> {
    ids_where(rewards, groups, |all| all.iter().all(|&reward| reward < threshold))
}

fn ids_where(rewards: &[f64], groups: &[usize], holds: impl Fn(&[f64]) -> bool) -> Vec<usize> {
    assert_eq!(rewards.len(), groups.len(), "one group id per reward");
    let with_id = |rows: Vec<usize>| {
        let all: Vec<f64> = rows.iter().map(|&row| rewards[row]).collect();
        holds(&all).then_some(groups[rows[0]])
    };
    members(groups).into_iter().filter_map(with_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_wherever_their_rows_are() {
        assert_eq!(members(&[7, 2, 7, 2, 5]), [vec![1, 3], vec![4], vec![0, 2]]);
        assert_eq!(groups_without_spread(&[1.0, 0.0, 1.0, 1.0, 0.0], &[7, 2, 7, 2, 5]), [5, 7]);
        assert_eq!(unrewarded_groups(&[1.0, 0.0, 0.0, 0.0, 0.2], &[7, 2, 7, 2, 5], 0.5), [2, 5]);
    }
}
