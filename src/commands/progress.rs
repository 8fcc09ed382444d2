//! One progress bar with an ETA, on stderr, only where somebody can see it.

use crate::args::Output;
use indicatif::{ProgressBar, ProgressStyle};

/// The bar of the phase under way.
pub struct Bars {
    bar: Option<(String, ProgressBar)>,
    quiet: bool,
}

impl Bars {
    pub fn new(output: Output) -> Self {
        Self { bar: None, quiet: output.quiet || output.json }
    }

    /// Shows `done` of `total` in a phase; a new phase starts a new bar.
    pub fn show(&mut self, phase: &str, done: usize, total: usize) {
        if self.quiet {
            return;
        }
        if self.bar.as_ref().is_none_or(|(shown, _)| shown != phase) {
            self.clear();
            let style = ProgressStyle::with_template("{msg:<28} {bar:32} {pos}/{len} [{elapsed} < {eta}]")
                .expect("a valid template");
            let bar = ProgressBar::new(total as u64).with_style(style).with_message(phase.to_string());
            self.bar = Some((phase.to_string(), bar));
        }
        let (_, bar) = self.bar.as_ref().expect("set above");
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    }

    /// Prints between the bar and what was printed before.
    pub fn above(&self, print: impl FnOnce()) {
        match &self.bar {
            Some((_, bar)) => bar.suspend(print),
            None => print(),
        }
    }

    pub fn clear(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
