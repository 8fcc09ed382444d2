//! Runs in processes of their own: so many at once, one core each. All of them stop, saved, when this one is stopped or dies.

use super::plan::{Plan, Planned, State};
use crate::args::Output;
use crate::commands::interrupt::Interrupt;
use crate::commands::progress::Bars;
use anyhow::{Context, Result};
use rex_trainer::Metrics;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

pub struct Children {
    jobs: usize,
    bars: Bars,
    stop: Interrupt,
    running: Vec<(usize, Child)>,
    report: Sender<(usize, News)>,
    news: Receiver<(usize, News)>,
}

/// What is heard of a run.
enum News {
    /// A step was done.
    Step,
    /// It closed its output and will end, with this on its standard error.
    Ends(String),
}

/// How often the wish to stop is looked at.
const POLL: Duration = Duration::from_millis(100);

impl Children {
    pub fn new(jobs: usize, output: Output, stop: Interrupt) -> Self {
        let (report, news) = channel();
        Self { jobs, bars: Bars::new(output), stop, running: Vec::new(), report, news }
    }

    /// Trains every unfinished run; `finished` hears of each that is done. Returns the runs that failed, with their
    /// messages: the others are not affected.
    pub fn train(
        mut self,
        plan: &mut Plan,
        finished: &mut dyn FnMut(&Plan, usize),
    ) -> Result<Vec<(usize, String)>> {
        let steps = plan.steps_left();
        let mut done = 0;
        let mut failures = Vec::new();
        let unfinished = |index: &usize| plan.runs[*index].state != State::Finished;
        let waiting: Vec<usize> = (0..plan.runs.len()).filter(unfinished).collect();
        let mut waiting = waiting.into_iter();
        loop {
            if self.stop.is_set() {
                self.ask_to_stop();
            }
            while self.running.len() < self.jobs && !self.stop.is_set() {
                let Some(index) = waiting.next() else { break };
                self.start(index, &plan.runs[index])?;
            }
            if self.running.is_empty() {
                self.bars.clear();
                return Ok(failures);
            }
            self.bars.show("training steps", done, steps);
            match self.news.recv_timeout(POLL) {
                Ok((_, News::Step)) => done += 1,
                Ok((index, News::Ends(message))) => {
                    let status = self.reap(index)?;
                    plan.runs[index].refresh()?;
                    if !status.success() {
                        let message = if message.is_empty() { status.to_string() } else { message };
                        failures.push((index, message));
                    } else if plan.runs[index].state == State::Finished {
                        self.bars.above(|| finished(plan, index));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("a sender is kept here"),
            }
        }
    }

    fn start(&mut self, index: usize, run: &Planned) -> Result<()> {
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(program);
        command.args(&run.words).arg("--until-stdin-ends");
        if run.state != State::New {
            command.arg("--resume");
        }
        // One thread a run: runs are what is parallel, and the numbers do not depend on how many there are.
        command.env("RAYON_NUM_THREADS", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting `rex train`")?;
        let stdout = child.stdout.take().expect("piped");
        let mut stderr = child.stderr.take().expect("piped");
        let report = self.report.clone();
        thread::spawn(move || {
            // Both pipes are read at once: a full one would hold the run up.
            let words = thread::spawn(move || {
                let mut words = Vec::new();
                let _ = stderr.read_to_end(&mut words);
                message(&String::from_utf8_lossy(&words))
            });
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let step =
                    serde_json::from_str::<Metrics>(&line).is_ok_and(|line| line.get("rex/em").is_some());
                if step {
                    let _ = report.send((index, News::Step));
                }
            }
            let _ = report.send((index, News::Ends(words.join().unwrap_or_default())));
        });
        self.running.push((index, child));
        Ok(())
    }

    /// Closes the standard input of every run, on which it saves and ends.
    fn ask_to_stop(&mut self) {
        for (_, child) in &mut self.running {
            drop(child.stdin.take());
        }
    }

    /// Waits for a run that ends.
    fn reap(&mut self, index: usize) -> Result<ExitStatus> {
        let place = self.running.iter().position(|(running, _)| *running == index).expect("it was started");
        let (_, mut child) = self.running.swap_remove(place);
        Ok(child.wait()?)
    }
}

/// The last lines of what a program said as it failed.
fn message(stderr: &str) -> String {
    const LINES: usize = 6;
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
    last.strip_prefix("rex: ").unwrap_or(&last).to_string()
}

#[cfg(test)]
mod tests {
    use super::message;

    #[test]
    fn messages() {
        assert_eq!(message("rex: no/such/model: not found\n"), "no/such/model: not found");
        assert_eq!(message(""), "");
        assert_eq!(message("1\n2\n\n3\n4\n5\n6\n7\n"), "2\n3\n4\n5\n6\n7");
    }
}
