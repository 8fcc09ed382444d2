//! Several processes that train together do what one does: here they are threads, so that no MPI is needed.

#[path = "fixtures/numbers.rs"]
mod numbers;
#[path = "fixtures/tiny.rs"]
mod tiny;

use burn::tensor::Device;
use rex_trainer::config::Config;
use rex_trainer::{Alone, Observer, Team, Trainer};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Barrier, Mutex};

/// One of several threads that hand each other bytes.
struct Thread {
    rank: usize,
    table: Arc<Table>,
}

struct Table {
    places: Mutex<Vec<Vec<u8>>>,
    all_here: Barrier,
}

impl Table {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { places: Mutex::new(vec![Vec::new(); size]), all_here: Barrier::new(size) })
    }
}

impl Thread {
    fn sum<T: bytemuck::Pod + std::iter::Sum<T>>(&self, numbers: &mut [T]) {
        let all = self.gather(bytemuck::cast_slice(numbers));
        let all: Vec<Vec<T>> = all.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
        for (place, number) in numbers.iter_mut().enumerate() {
            *number = all.iter().map(|numbers| numbers[place]).sum();
        }
    }
}

impl Team for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.table.places.lock().unwrap().len()
    }

    fn gather(&self, own: &[u8]) -> Vec<Vec<u8>> {
        self.table.places.lock().unwrap()[self.rank] = own.to_vec();
        self.table.all_here.wait();
        let all = self.table.places.lock().unwrap().clone();
        self.table.all_here.wait();
        all
    }

    fn sum_f32(&self, numbers: &mut [f32]) {
        self.sum(numbers);
    }

    fn sum_f64(&self, numbers: &mut [f64]) {
        self.sum(numbers);
    }
}

/// The others would wait for ever for a thread that is gone.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// What every thread's `work` gives, in the order of the ranks.
fn together<T: Send>(size: usize, work: impl Fn(Rc<dyn Team>) -> T + Sync) -> Vec<T> {
    let (table, work) = (Table::new(size), &work);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let table = table.clone();
                scope.spawn(move || {
                    let _guard = AbortOnPanic;
                    work(Rc::new(Thread { rank, table }))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn config(folder: &Path, name: &str, words: &[&str]) -> Config {
    let mut words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    words.push(format!("trainer.run_dir={}", folder.join(name).display()));
    // A part of the rollouts a question, so that every team draws them in the same batches.
    words.extend(["rollout.max_rows=4".to_string(), "trainer.micro_batch_tokens=256".to_string()]);
    Config::load(Some(&folder.join("config.toml")), &words).unwrap()
}

fn check(words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    let train = |name: &str, team: Rc<dyn Team>| {
        let mut trainer = Trainer::start(config(folder.path(), name, words), &Device::flex(), team).unwrap();
        assert!(trainer.run(&mut ()).unwrap());
    };
    train("one", Rc::new(Alone));
    let one = numbers::metrics(&folder.path().join("one"));
    assert!(one.iter().any(|line| line.get("rex/probes_kept").is_some_and(|kept| kept.as_f64() > Some(0.0))));
    for size in [2, 3, 5] {
        let name = format!("of {size}");
        together(size, |team| train(&name, team));
        let several = numbers::metrics(&folder.path().join(&name));
        let (worst, of) = numbers::worst_difference(&several, &one);
        println!("{size} together: worst difference {worst:.1e} ({of})");
        assert!(worst <= 1e-5, "{size} together: {of}");
        for kind in ["rollouts", "checkpoints"] {
            let files = |name: &str| {
                let entries = std::fs::read_dir(folder.path().join(name).join(kind)).unwrap();
                let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
                names.sort();
                names
            };
            assert_eq!(files(&name), files("one"), "{kind}");
        }
    }
}

#[test]
fn several_processes_train_as_one() {
    check(&[]);
}

/// Adapters: most parameters have no gradient. Mini-batches of one question: some processes have no pass.
#[test]
fn with_adapters_and_small_batches_too() {
    check(&["model.lora_rank=2", "algorithm.ppo_mini_batch_size=1", "algorithm.kl_loss_coef=0.1"]);
}

/// Replaced questions are replaced for all.
#[test]
fn with_dynamic_sampling_too() {
    check(&["algorithm.max_resamples=3"]);
}

/// A stop that one process is asked for stops all after the same step, and the run goes on from there, in a team of another size.
#[test]
fn one_stops_for_all() {
    struct Stop(bool);
    impl Observer for Stop {
        fn stop(&self) -> bool {
            self.0
        }
    }
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    let config = |name: &str| config(folder.path(), name, &[]);
    let finished = together(3, |team| {
        let asked = team.rank() == 1;
        let mut trainer = Trainer::start(config("stopped"), &Device::flex(), team).unwrap();
        trainer.run(&mut Stop(asked)).unwrap()
    });
    assert_eq!(finished, [false; 3]);
    together(2, |team| {
        Trainer::resume(config("stopped"), &Device::flex(), team).unwrap().run(&mut ()).unwrap()
    });
    Trainer::start(config("whole"), &Device::flex(), Rc::new(Alone)).unwrap().run(&mut ()).unwrap();
    let of = |name: &str| numbers::metrics(&folder.path().join(name));
    let (worst, of) = numbers::worst_difference(&of("stopped"), &of("whole"));
    assert!(worst <= 1e-5, "{of}");
}

/// What is not the same for all is found out before the first step.
#[test]
fn a_process_apart_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    tiny::write(folder.path(), 1, 32);
    let errors = together(3, |team| {
        let words = if team.rank() == 1 { ["rollout.group_size=5"] } else { ["rollout.group_size=4"] };
        let config = config(folder.path(), "run", &words);
        Trainer::start(config, &Device::flex(), team).err().map(|error| error.to_string())
    });
    for error in errors {
        assert!(error.unwrap().starts_with("process 1 has another configuration than process 0"));
    }
}
