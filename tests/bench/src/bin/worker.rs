//! The worker that is measured: the standard one with three native handlers more.
//!
//! `noop` does nothing, `stamp` gives back when it was started, `second` takes a second. Everything else is `sched-worker`: if the
//! process dies, what it ran is recovered as any worker's.

use std::process::ExitCode;
use std::time::Duration;

use sched_worker::{Builder, Ctx, HandlerError, Worker};
use serde_json::{Value, json};

#[path = "../stamp.rs"]
mod stamp;

fn main() -> ExitCode {
    builder().main()
}

fn builder() -> Builder {
    Worker::builder().handler("noop", noop).handler("stamp", stamped).handler("second", second).program(
        "bench-worker",
        env!("CARGO_PKG_VERSION"),
        "The worker that benchmarks measure",
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
