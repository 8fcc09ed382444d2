//! A batch in passes.

use rex_model::pass_tokens;

/// Splits items, each a row of tokens `ids`, into passes that compute at most `tokens` tokens, padding included; an item that is
/// longer has a pass to itself. Items that begin alike stay together, since a pass computes once what its rows have in common, and
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
