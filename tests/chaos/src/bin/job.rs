//! The program that jobs run. It logs its start, its heartbeats and its end for the checker.
//!
//! `chaos-job LOG MILLISECONDS MODE` works for that time, then succeeds (`well`), fails (`badly`),
//! or fails in every third attempt (`flaky`). Lines are appended whole, so those of a killed
//! process stay valid. A program that cannot write its log fails.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PULSE: Duration = Duration::from_millis(100);

fn main() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        || arguments.next().ok_or_else(|| io::Error::other("usage: chaos-job LOG MILLISECONDS MODE"));
    let (path, milliseconds, mode) = (next()?, next()?, next()?);
    let mut left = Duration::from_millis(milliseconds.parse().map_err(io::Error::other)?);
    let (dispatch, attempt) = (variable("SCHED_RUN_ID")?, variable("SCHED_ATTEMPT")?);
    let mut log = OpenOptions::new().create(true).append(true).open(path)?;
    let mut note = |kind: &str| {
        let line = format!("{kind} {dispatch} {attempt} {} {:.6}\n", std::process::id(), now());
        log.write_all(line.as_bytes())
    };
    note("begin")?;
    while !left.is_zero() {
        let step = left.min(PULSE);
        thread::sleep(step);
        left -= step;
        note("alive")?;
    }
    let fails = match mode.as_str() {
        "badly" => true,
        "flaky" => dispatch.bytes().chain(attempt.bytes()).map(u32::from).sum::<u32>().is_multiple_of(3),
        _ => false,
    };
    if fails {
        return Ok(ExitCode::from(7));
    }
    note("end")?;
    Ok(ExitCode::SUCCESS)
}

fn variable(name: &str) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "a job program gets its ids from the environment")]
    std::env::var(name).map_err(|error| io::Error::other(format!("{name}: {error}")))
}

/// Seconds since the epoch.
fn now() -> f64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "an effect is dated by who has it; the database runs on the same machine"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
