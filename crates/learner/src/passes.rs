//! A batch in passes.

use rex_model::pass_tokens;

/// Splits items, each a row of tokens `ids`, into passes of at most `tokens` tokens, padding included ([`pass_tokens`]); an item that
/// is longer has a pass to itself. Items that begin alike stay together, since a pass computes once what its rows have in common, and
/// items of like length go together.
pub fn split<'t, T>(items: &[&'t T], ids: impl Fn(&T) -> &[u32], tokens: usize) -> Vec<Vec<&'t T>> {
    let cost = |items: &[&T]| pass_tokens(&items.iter().map(|item| ids(item)).collect::<Vec<_>>());
    let mut sorted = items.to_vec();
    sorted.sort_by(|a, b| ids(a).cmp(ids(b)));
    let alike = join(sorted.into_iter().map(|item| vec![item]), |alike, item| {
        let together = cost(&[alike, item].concat());
        together <= tokens && together < cost(alike) + cost(item)
    });
    let mut longest_first = alike;
    longest_first.sort_by_key(|alike| std::cmp::Reverse(alike.iter().map(|item| ids(item).len()).max()));
    join(longest_first, |pass, alike| cost(&[pass, alike].concat()) <= tokens)
}

/// Joins neighbours as long as they `fit`.
fn join<'t, T>(
    parts: impl IntoIterator<Item = Vec<&'t T>>,
    fit: impl Fn(&[&'t T], &[&'t T]) -> bool,
) -> Vec<Vec<&'t T>> {
    let mut joined: Vec<Vec<&T>> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if fit(last, &part) => last.extend(part),
            _ => joined.push(part),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::split;

    /// The rows of every pass; a row begins with its family's number.
    fn check(rows: &[(u32, usize)], tokens: usize, expected: &[&[(u32, usize)]]) {
        let rows: Vec<Vec<u32>> = rows
            .iter()
            .enumerate()
            .map(|(r, &(family, len))| {
                let common = (0..len as u32 - 1).map(|t| 1000 * family + t);
                common.chain([1_000_000 + r as u32]).collect()
            })
            .collect();
        let items: Vec<&Vec<u32>> = rows.iter().collect();
        let passes = split(&items, |row| row, tokens);
        let found: Vec<Vec<(u32, usize)>> =
            passes.iter().map(|pass| pass.iter().map(|row| (row[0] / 1000, row.len())).collect()).collect();
        assert_eq!(found, expected, "{tokens} tokens");
    }

    #[test]
    fn like_lengths_and_like_beginnings_go_together() {
        // Nothing in common: two rows of the longer's length fit.
        check(&[(1, 10), (2, 30), (3, 9), (4, 29)], 60, &[&[(2, 30), (4, 29)], &[(1, 10), (3, 9)]]);
        // Three rows of a family take 30, 1, 1 and an eighth of 2 x 29.
        let family = [(1, 30), (2, 12), (1, 30), (1, 30)];
        check(&family, 39, &[&[(1, 30), (1, 30), (1, 30)], &[(2, 12)]]);
        check(&family, 38, &[&[(1, 30), (1, 30)], &[(1, 30)], &[(2, 12)]]);
        // What is too long is alone.
        check(&[(1, 100), (2, 5)], 20, &[&[(1, 100)], &[(2, 5)]]);
        check(&[], 20, &[]);
    }

    #[test]
    fn the_order_of_the_items_does_not_matter() {
        let rows: Vec<Vec<u32>> =
            (0..24u32).map(|r| (0..5 + r % 7).map(|t| (r % 4) * 100 + t / 3).collect()).collect();
        let forwards: Vec<&Vec<u32>> = rows.iter().collect();
        let backwards: Vec<&Vec<u32>> = rows.iter().rev().collect();
        assert_eq!(split(&forwards, |row| row, 40), split(&backwards, |row| row, 40));
    }
}
