//! Rows that begin alike, computed once.

use burn::tensor::Device;

use crate::attention::{NOWHERE, Placement};
use crate::rope::Rope;

/// The rows of a training pass as a forest: a row that begins as another one does, a probe as its parent for one, is a branch of
/// it, and only what it has of its own is computed. No token sees what comes after it, so what is shared has the same states in
/// either row.
///
/// Rows at the same depth form a rectangle, their own tokens padded on the right. The tokens of a pass are those of the
/// rectangles, one after the other.
pub(crate) struct Forest {
    nodes: Vec<Node>,
    levels: Vec<Level>,
}

/// A row.
struct Node {
    parent: Option<usize>,
    /// Tokens shared with the parent; the row's own follow.
    start: usize,
    level: usize,
    /// Among the rows of its level.
    place: usize,
}

/// Rows at the same depth.
struct Level {
    rows: Vec<usize>,
    /// Tokens of their own, padding included.
    width: usize,
    /// Where its tokens begin among those of the pass.
    first: usize,
}

/// A row is a branch if it shares at least one in so many of its tokens: in a rectangle of rows of like length each branch then
/// saves as large a share, whatever the padding.
const SHARED: usize = 3;

/// Each row has its own copy of the keys and values that it shares. Of so many tokens these are fewer numbers than the activations
/// of one.
const COPIED: usize = 8;

/// What a training pass over `rows` takes, in tokens: those that it computes, padding included, and an eighth of those that rows
/// share with others.
pub fn pass_tokens(rows: &[&[u32]]) -> usize {
    let forest = Forest::new(rows);
    forest.tokens() + forest.nodes.iter().map(|node| node.start).sum::<usize>() / COPIED
}

impl Forest {
    pub(crate) fn new(rows: &[&[u32]]) -> Self {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| rows[row]);
        let root = || Node { parent: None, start: 0, level: 0, place: 0 };
        let mut nodes: Vec<Node> = rows.iter().map(|_| root()).collect();
        // In this order a row shares the most with the one before it.
        for pair in order.windows(2) {
            let (before, row) = (pair[0], pair[1]);
            let start = shared(rows[before], rows[row]);
            if start > 0 && SHARED * start >= rows[row].len() {
                let mut parent = before;
                while let Some(earlier) = nodes[parent].parent.filter(|_| nodes[parent].start >= start) {
                    parent = earlier;
                }
                nodes[row] = Node { parent: Some(parent), start, level: nodes[parent].level + 1, place: 0 };
            }
        }

        let mut levels: Vec<Level> = Vec::new();
        for (row, node) in nodes.iter_mut().enumerate() {
            while levels.len() <= node.level {
                levels.push(Level { rows: Vec::new(), width: 0, first: 0 });
            }
            let level = &mut levels[node.level];
            node.place = level.rows.len();
            level.rows.push(row);
            level.width = level.width.max(rows[row].len() - node.start);
        }
        let mut first = 0;
        for level in &mut levels {
            level.first = first;
            first += level.tokens();
        }
        Self { nodes, levels }
    }

    pub(crate) fn tokens(&self) -> usize {
        self.levels.iter().map(Level::tokens).sum()
    }

    /// The tokens of the pass, padded with id 0.
    pub(crate) fn ids(&self, rows: &[&[u32]]) -> Vec<i32> {
        let mut ids = vec![0; self.tokens()];
        for (row, node) in rows.iter().zip(&self.nodes) {
            let level = &self.levels[node.level];
            let own = &row[node.start..];
            for (place, id) in ids[level.first + node.place * level.width..].iter_mut().zip(own) {
                *place = *id as i32;
            }
        }
        ids
    }

    /// Which token of the pass is the `t`-th of a row.
    pub(crate) fn token(&self, mut row: usize, t: usize) -> usize {
        while let Some(parent) = self.nodes[row].parent.filter(|_| t < self.nodes[row].start) {
            row = parent;
        }
        let Node { start, level, place, .. } = self.nodes[row];
        let Level { width, first, .. } = self.levels[level];
        first + place * width + t - start
    }

    /// A placement a level.
    pub(crate) fn placements(&self, rope: &Rope, device: &Device) -> Vec<Placement> {
        let Some((roots, branches)) = self.levels.split_first() else { return Vec::new() };
        let mut placements =
            vec![Placement::new(&vec![0; roots.rows.len()], roots.width, roots.width, rope, device)];
        // Where the keys stand that a row of the level before looks at.
        let mut stand = vec![(0..roots.width).map(|at| at as f32).collect::<Vec<f32>>(); roots.rows.len()];
        for level in branches {
            let (mut parents, mut starts, mut keys) = (Vec::new(), Vec::new(), Vec::new());
            for &row in &level.rows {
                let Node { parent, start, .. } = self.nodes[row];
                let parent = parent.expect("only roots have no parent");
                let parent = self.nodes[parent].place;
                parents.push(parent as i32);
                starts.push(start);
                let seen = |at: &f32| if (*at as usize) < start { *at } else { NOWHERE };
                keys.push(stand[parent].iter().map(seen).collect::<Vec<f32>>());
            }
            let last_seen =
                |keys: &Vec<f32>| keys.iter().rposition(|at| *at < NOWHERE).map_or(0, |last| last + 1);
            let inherited = keys.iter().map(last_seen).max().unwrap_or(0);
            for (keys, start) in keys.iter_mut().zip(&starts) {
                keys.truncate(inherited);
                keys.extend((*start..start + level.width).map(|at| at as f32));
            }
            placements.push(Placement::inheriting(&parents, &starts, level.width, &keys, rope, device));
            stand = keys;
        }
        placements
    }
}

impl Level {
    fn tokens(&self) -> usize {
        self.rows.len() * self.width
    }
}

/// Tokens with which both rows begin, but never all of `row`: each has one of its own.
fn shared(other: &[u32], row: &[u32]) -> usize {
    let alike = other.iter().zip(row).take_while(|(a, b)| a == b).count();
    alike.min(row.len().saturating_sub(1))
}
