//! One file a command.

pub mod ask;
pub mod compare;
pub mod doctor;
pub mod eval;
pub mod export;
pub mod index;
mod interrupt;
mod model;
mod progress;
pub mod report;
mod sampling;
pub mod serve;
pub mod sft;
mod summary;
pub mod train;
pub mod world;
