//! The browser demo: mixed sampling in a tab, for a web worker (`page/worker.js`) that awaits what these functions give.
//!
//! Only bindings: text that JavaScript hands in, JSON out. [`Demo`] holds a loaded model with everything around it,
//! [`sample`](Demo::sample) draws transcripts and tells of every token, [`weigh`](Demo::weigh) says what the policy correction
//! makes of the last ones, [`learn`](Demo::learn) takes a training step. [`messages`] are the shapes of the JSON. The worker's
//! other messages (progress, cancellation, a lost device) are JavaScript's.
#![cfg(target_family = "wasm")]

mod backend;
mod demo;
mod messages;
mod settings;
mod student;
mod weighing;

pub use demo::Demo;
