//! Ctrl-C as "finish this step, save, stop"; twice as "leave at once".

use anyhow::Result;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants to stop.
#[derive(Clone)]
pub struct Interrupt(Arc<AtomicBool>);

/// Takes Ctrl-C from now on.
pub fn on_ctrl_c() -> Result<Interrupt> {
    let stop = Arc::new(AtomicBool::new(false));
    let asked = stop.clone();
    let mut pressed = false;
    ctrlc::set_handler(move || {
        if pressed {
            // Checkpoints are written aside, so nothing is lost but this step.
            std::process::exit(130);
        }
        pressed = true;
        asked.store(true, Ordering::Relaxed);
        eprintln!("\nstopping after this step; press Ctrl-C again to leave at once");
    })?;
    Ok(Interrupt(stop))
}

impl Interrupt {
    /// Takes the end of standard input, too: whoever started this process wants it to stop, or has died.
    pub fn or_stdin_ends(&self) {
        let stop = self.0.clone();
        std::thread::spawn(move || {
            let mut input = std::io::stdin().lock();
            while matches!(input.read(&mut [0; 64]), Ok(1..)) {}
            stop.store(true, Ordering::Relaxed);
        });
    }

    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
