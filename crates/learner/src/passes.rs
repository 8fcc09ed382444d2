//! A batch in passes.

/// Splits items of `len` tokens each into passes of at most `tokens` tokens, padding included; items of like length go
/// together, and one that is longer than that has a pass to itself.
pub fn split<'t, T>(items: &[&'t T], len: impl Fn(&T) -> usize, tokens: usize) -> Vec<Vec<&'t T>> {
    let mut sorted = items.to_vec();
    sorted.sort_by_key(|item| std::cmp::Reverse(len(item)));
    let mut passes: Vec<Vec<&T>> = Vec::new();
    for item in sorted {
        match passes.last_mut() {
            Some(pass) if (pass.len() + 1) * len(pass[0]) <= tokens => pass.push(item),
            _ => passes.push(vec![item]),
        }
    }
    passes
}
