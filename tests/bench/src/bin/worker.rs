//! The measured worker: `sched-worker` with three additional native handlers.
//!
//! `noop` does nothing, `stamp` returns its start time, `second` takes a second. With `--crowd=N`
//! it is N workers in one process.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use sched_runtime::config::ProcessEnvironment;
use sched_runtime::daemon::Invocation;
use sched_runtime::exit::ExitError;
use sched_worker::{Builder, Config, Ctx, HandlerError, Worker};
use serde_json::{Value, json};

#[path = "../stamp.rs"]
mod stamp;

const CROWD: &str = "--crowd=";

fn main() -> ExitCode {
    let (crowd, others): (Vec<String>, Vec<String>) =
        std::env::args().partition(|argument| argument.starts_with(CROWD));
    let Some(count) = crowd.first().and_then(|argument| argument.strip_prefix(CROWD)?.parse().ok()) else {
        return builder().main();
    };
    match run_crowd(count, others) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error.describe());
            ExitCode::from(error.code())
        }
    }
}

fn run_crowd(count: usize, arguments: Vec<String>) -> Result<(), ExitError> {
    let worker = builder().build().map_err(ExitError::from)?;
    let invocation = Invocation {
        program: &sched_worker::PROGRAM,
        groups: sched_worker::config::GROUPS,
        args: arguments.into_iter().map(OsString::from),
        source: &ProcessEnvironment,
    };
    invocation.run(Config::read, |config, context| worker.run_crowd(count, config, context))
}

fn builder() -> Builder {
    Worker::builder().handler("noop", noop).handler("stamp", stamped).handler("second", second).program(
        "bench-worker",
        env!("CARGO_PKG_VERSION"),
        "The worker of the benchmarks",
    )
}

async fn noop(_: Ctx, _: Value) -> Result<(), HandlerError> {
    Ok(())
}

async fn stamped(_: Ctx, _: Value) -> Result<Value, HandlerError> {
    Ok(json!({"at": stamp::now()}))
}

async fn second(_: Ctx, _: Value) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Ok(())
}
