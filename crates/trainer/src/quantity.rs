//! How quantities are written for people.

/// `1,234,567`.
pub fn count(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0.0 && digits != "0" { format!("-{text}") } else { text }
}

/// `42 s`, `3 min 20 s`, `2 h 05 min`.
pub fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_people_write_them() {
        let check = |number: f64, expected: &str| assert_eq!(count(number), expected);
        check(0.0, "0");
        check(999.0, "999");
        check(999.4, "999");
        check(1000.0, "1,000");
        check(1_234_567.0, "1,234,567");
        check(-12_345.0, "-12,345");
        let check = |seconds: f64, expected: &str| assert_eq!(duration(seconds), expected);
        check(0.4, "0 s");
        check(59.6, "1 min 00 s");
        check(200.0, "3 min 20 s");
        check(7500.0, "2 h 05 min");
    }
}
