//! What one request, and all of them together, may ask for.

use std::time::Duration;

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Limits {
    /// Passages for each query where a request does not say
    #[arg(long, default_value_t = 3, value_name = "K")]
    pub topk: usize,
    /// Most passages for each query; a request for more gets this many
    #[arg(long, default_value_t = 100, value_name = "K")]
    pub max_topk: usize,
    /// Most queries in one request
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub max_queries: usize,
    /// Largest body of a request, in MiB
    #[arg(long, default_value_t = 16, value_name = "MIB")]
    pub max_body: usize,
    /// Requests served or waiting at once; the next is refused with 503
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = at_least_one)]
    pub max_requests: usize,
    /// Seconds after which a request is given up with 503
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    pub timeout: u64,
}

impl Limits {
    pub fn body_bytes(&self) -> usize {
        self.max_body << 20
    }

    pub fn patience(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_string()),
        parsed => parsed.map_err(|error: std::num::ParseIntError| error.to_string()),
    }
}
