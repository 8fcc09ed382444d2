//! Which runs there are, and how far each is.

use anyhow::{Context, Result};
use rex_trainer::compare::{Arm, Run};
use rex_trainer::config::{Config, ConfigError};
use rex_trainer::{History, RunDir, checkpoint};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// All runs, seed by seed, so that arms can be compared before the last seed is done.
pub struct Plan {
    pub runs: Vec<Planned>,
    /// What the runs are evaluated on.
    pub questions: Vec<PathBuf>,
}

pub struct Planned {
    /// Position of its arm.
    pub arm: usize,
    pub seed: u64,
    pub dir: PathBuf,
    /// Of `rex train`.
    pub words: Vec<OsString>,
    pub steps: usize,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    New,
    /// Steps done.
    Begun(usize),
    Finished,
}

impl Plan {
    /// # Errors
    /// A configuration that an arm makes invalid, or that differs from the one which a run was started with: before
    /// anything is trained.
    pub fn new(
        file: &Path,
        device: &str,
        overrides: &[String],
        out: &Path,
        arms: &[Arm],
        seeds: &[u64],
    ) -> Result<Self> {
        let (mut runs, mut questions) = (Vec::new(), Vec::new());
        for &seed in seeds {
            for (index, arm) in arms.iter().enumerate() {
                let dir = out.join(&arm.name).join(format!("seed-{seed}"));
                let mut words = overrides.to_vec();
                words.extend(arm.overrides.iter().cloned());
                words.push(format!("trainer.seed={seed}"));
                words.push(format!("trainer.run_dir={}", quoted(&dir)?));
                // The common start of all curves.
                words.push("trainer.val_before_train=true".to_string());
                let place = || format!("arm {}, seed {seed}", arm.name);
                let config = Config::load(Some(file), &words).with_context(place)?;
                questions = config.val_files()?.to_vec();
                if config.trainer.test_freq == 0 {
                    let (key, rule) =
                        ("trainer.test_freq", "must be at least 1: arms are compared by evaluations");
                    return Err(ConfigError::Rule { key, value: "0".to_string(), rule }.into());
                }
                let state = State::of(&config, &dir).with_context(place)?;
                let steps = config.trainer.total_steps;
                runs.push(Planned {
                    arm: index,
                    seed,
                    dir,
                    words: command(file, device, &words),
                    steps,
                    state,
                });
            }
        }
        Ok(Self { runs, questions })
    }

    pub fn unfinished(&self) -> usize {
        self.runs.iter().filter(|run| run.state != State::Finished).count()
    }

    /// Steps that are left to do.
    pub fn steps_left(&self) -> usize {
        self.runs.iter().map(Planned::steps_left).sum()
    }

    /// The finished runs, read back.
    pub fn finished(&self) -> Result<Vec<Run>> {
        let finished = self.runs.iter().filter(|run| run.state == State::Finished);
        finished
            .map(|run| {
                let history = History::read(&RunDir::open(&run.dir)?.metrics())?;
                Ok(Run { arm: run.arm, seed: run.seed, history })
            })
            .collect()
    }
}

impl Planned {
    pub fn steps_left(&self) -> usize {
        match self.state {
            State::New => self.steps,
            State::Begun(done) => self.steps.saturating_sub(done),
            State::Finished => 0,
        }
    }

    /// Looks again how far the run is, after its process has ended.
    pub fn refresh(&mut self) -> Result<()> {
        self.state = match RunDir::open(&self.dir) {
            Ok(run) => State::read(&run, self.steps)?,
            Err(_) => State::New,
        };
        Ok(())
    }
}

impl State {
    fn of(config: &Config, dir: &Path) -> Result<Self> {
        if RunDir::open(dir).is_err() {
            return Ok(Self::New);
        }
        Self::read(&RunDir::resume(config)?, config.trainer.total_steps)
    }

    /// A run is as far as its newest checkpoint: what came after is done again.
    fn read(run: &RunDir, steps: usize) -> Result<Self> {
        let Some(folder) = checkpoint::latest(run)? else { return Ok(Self::Begun(0)) };
        let progress: checkpoint::Progress = checkpoint::load_progress(&folder)?;
        Ok(if progress.step >= steps { Self::Finished } else { Self::Begun(progress.step) })
    }
}

fn command(file: &Path, device: &str, words: &[String]) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![
        "train".into(),
        "--json".into(),
        "--device".into(),
        device.into(),
        "--config".into(),
        file.into(),
    ];
    command.extend(words.iter().map(OsString::from));
    command
}

/// A path as a TOML string, so that no name is taken for another value.
fn quoted(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{}: not UTF-8", path.display()))?;
    Ok(toml::Value::String(text.to_string()).to_string())
}
