//! `--seeds`.

/// Seeds, each once, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeds(pub Vec<u64>);

/// `0..3` or `0,1,2`.
pub fn parse(text: &str) -> Result<Seeds, String> {
    let fault = || format!("`{text}`: write 0..3 (which is 0,1,2), or 0,1,2");
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| fault());
    let seeds: Vec<u64> = match text.split_once("..") {
        Some((from, to)) => (number(from)?..number(to)?).collect(),
        None => text.split(',').map(number).collect::<Result<_, _>>()?,
    };
    let twice = (1..seeds.len()).any(|place| seeds[..place].contains(&seeds[place]));
    if seeds.is_empty() || twice { Err(fault()) } else { Ok(Seeds(seeds)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_lists() {
        let check = |text: &str, expected: &[u64]| assert_eq!(parse(text).unwrap().0, expected);
        check("0..3", &[0, 1, 2]);
        check("7", &[7]);
        check("3, 1,2", &[3, 1, 2]);
        for text in ["", "3..3", "a", "1,,2", "1,1", "-1", "0..=3"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
