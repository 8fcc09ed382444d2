//! One file a command.

pub mod ask;
pub mod doctor;
pub mod eval;
pub mod export;
pub mod index;
mod progress;
pub mod train;
