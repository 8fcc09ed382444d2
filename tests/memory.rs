//! Memory does not grow over a run. Alone in its process: other tests would be counted.

#[path = "fixtures/tiny.rs"]
mod tiny;

use rex_trainer::config::Config;
use rex_trainer::{Metrics, Observer, Trainer};

/// Resident memory at step 60 is within 5 % of that at step 10.
#[test]
fn memory_stays_flat() {
    struct Memory(Vec<u64>);
    impl Observer for Memory {
        fn step(&mut self, _: &Metrics) {
            self.0.push(resident());
        }
    }
    if resident() == 0 {
        eprintln!("resident memory cannot be read on this system: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1);
    let config = Config::load(
        Some(&folder.path().join("config.toml")),
        &["trainer.total_steps=60".to_string(), "trainer.save_freq=20".to_string()],
    );
    let mut memory = Memory(Vec::new());
    Trainer::start(config.unwrap(), &burn::tensor::Device::flex()).unwrap().run(&mut memory).unwrap();
    let (early, late) = (memory.0[9] as f64, memory.0[59] as f64);
    println!(
        "resident memory: {:.1} MiB at step 10, {:.1} MiB at step 60",
        early / 1048576.0,
        late / 1048576.0
    );
    assert!(late <= 1.05 * early, "{early} bytes at step 10, {late} at step 60");
}

/// Bytes of this process in memory; 0 where the system does not say.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
