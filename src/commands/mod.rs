//! One file a command.

pub mod ask;
pub mod compare;
pub mod doctor;
pub mod eval;
pub mod export;
pub mod index;
mod interrupt;
mod progress;
pub mod report;
pub mod serve;
pub mod sft;
mod summary;
pub mod train;
pub mod world;

use rex_model::Sampling;

/// `--temperature`: 0 is the likeliest token.
fn sampling(temperature: f64) -> Sampling {
    if temperature > 0.0 { Sampling::Temperature(temperature) } else { Sampling::Greedy }
}
