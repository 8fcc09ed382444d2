//! How `ask` and `eval` choose the next token.

use rex_model::{Sampling, Truncation};

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct SamplingArgs {
    /// Sampling temperature; 0 takes the likeliest token
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = temperature)]
    temperature: f64,
    /// Draw from the K likeliest tokens only (training draws from all)
    #[arg(long, value_name = "K", requires = "temperature", value_parser = top_k)]
    top_k: Option<usize>,
    /// Draw from the likeliest tokens that have probability P together
    #[arg(long, value_name = "P", requires = "temperature", value_parser = top_p)]
    top_p: Option<f64>,
    /// Draw from the tokens at least P times as likely as the likeliest
    #[arg(long, value_name = "P", requires = "temperature", value_parser = min_p)]
    min_p: Option<f64>,
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// The flags that confine a draw to some tokens.
pub const TRUNCATION: [&str; 3] = ["top_k", "top_p", "min_p"];

impl SamplingArgs {
    pub fn sampling(self) -> Sampling {
        let Self { temperature, top_k, top_p, min_p, .. } = self;
        let truncation = Truncation { top_k, top_p, min_p };
        if temperature == 0.0 {
            Sampling::Greedy
        } else if truncation == Truncation::default() {
            Sampling::Temperature(temperature)
        } else {
            Sampling::Truncated { temperature, truncation }
        }
    }
}

fn temperature(word: &str) -> Result<f64, String> {
    number(word, |t: f64| t >= 0.0 && t.is_finite(), "expected a number from 0")
}

fn top_k(word: &str) -> Result<usize, String> {
    number(word, |k: usize| k >= 1, "expected a whole number from 1")
}

fn top_p(word: &str) -> Result<f64, String> {
    number(word, |p: f64| 0.0 < p && p <= 1.0, "expected a number above 0, up to 1")
}

fn min_p(word: &str) -> Result<f64, String> {
    number(word, |p: f64| (0.0..=1.0).contains(&p), "expected a number from 0 to 1")
}

fn number<T: std::str::FromStr + Copy>(
    word: &str,
    fits: impl Fn(T) -> bool,
    expected: &str,
) -> Result<T, String> {
    word.parse().ok().filter(|&value| fits(value)).ok_or_else(|| expected.to_string())
}
