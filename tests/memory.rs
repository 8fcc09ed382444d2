//! Memory does not grow over a run. Alone in its process, so that nothing else is counted.
//!
//! Live bytes are compared, which are the same in every run. Resident memory is printed beside them: it moves by a
//! tenth from step to step, as the allocator keeps or returns the pages of the last pass.

#[path = "fixtures/allocator.rs"]
#[allow(dead_code, unreachable_pub)]
mod allocator;
#[path = "fixtures/tiny.rs"]
mod tiny;

use rex_trainer::config::Config;
use rex_trainer::{Alone, Metrics, Observer, Trainer};
use std::rc::Rc;

/// Live and resident bytes after every step.
#[derive(Default)]
struct Memory(Vec<(usize, u64)>);

impl Observer for Memory {
    fn step(&mut self, _: &Metrics) {
        self.0.push((allocator::live(), resident()));
    }
}

/// Memory at step 60 is within 5 % of that at step 10.
#[test]
fn memory_stays_flat() {
    let folder = tempfile::tempdir().unwrap();
    let config = tiny::write(folder.path(), 1, 64);
    let words = ["trainer.total_steps=60", "trainer.save_freq=20"].map(str::to_string);
    let config = Config::load(Some(&config), &words).unwrap();
    let mut memory = Memory::default();
    Trainer::start(config, &burn::tensor::Device::flex(), Rc::new(Alone)).unwrap().run(&mut memory).unwrap();
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    for step in [10, 20, 30, 40, 50, 60] {
        let (live, resident) = memory.0[step - 1];
        println!("step {step}: {:.2} MiB live, {:.1} MiB resident", mib(live as f64), mib(resident as f64));
    }
    let (early, late) = (memory.0[9].0 as f64, memory.0[59].0 as f64);
    assert!(late <= 1.05 * early, "{early} bytes at step 10, {late} at step 60");
}

/// Bytes of this process in memory; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
