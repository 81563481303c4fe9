//! A worker with its own functions: `cargo run -p native-worker`. Jobs for it are in
//! `deploy/examples/native.yaml`. `docs/guide/functions-native.md` explains it.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::process::ExitCode;
use std::time::Duration;

use sched_worker::{Ctx, HandlerError, Worker};
use serde::{Deserialize, Serialize};

fn main() -> ExitCode {
    Worker::builder()
        .program("native-worker", env!("CARGO_PKG_VERSION"), "A worker with its own functions.")
        .handler("invoices::send", send_invoices)
        .handler("accounts::export", export_accounts)
        .blocking_handler("files::count_lines", count_lines)
        .main()
}

/// Arguments are deserialized into a type. A job whose arguments do not fit fails at once, and the
/// error names the location.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Billing {
    customers: Vec<String>,
    #[serde(default = "one")]
    cents: u64,
}

fn one() -> u64 {
    100
}

/// The returned value is stored as the result of the attempt.
#[derive(Debug, Serialize)]
struct Sent {
    invoices: usize,
    total_cents: u64,
    month: String,
}

/// An ordinary job: typed arguments, errors with and without a retry, progress, log.
async fn send_invoices(ctx: Ctx, args: Billing) -> Result<Sent, HandlerError> {
    if args.cents == 0 {
        // The same arguments would fail again, so the retry policy is bypassed.
        return Err(HandlerError::new("nothing_to_bill", "an invoice over nothing is not sent").no_retry());
    }
    // From the fire time and not from today: a late attempt bills the intended month.
    let month = ctx.fire_time().format("%Y-%m").to_string();
    let mut total_cents = 0;
    for (done, customer) in args.customers.iter().enumerate() {
        ctx.progress(percent(done, args.customers.len()), format!("invoice of {customer}"));
        // With this key the mail service sends the message once, however often the attempt is
        // repeated.
        let key = format!("{}/{customer}", ctx.idempotency_key());
        send_mail(customer, &key).await?;
        ctx.log(format!("sent {} cents for {month} to {customer}", args.cents));
        total_cents += args.cents;
    }
    Ok(Sent { invoices: args.customers.len(), total_cents, month })
}

/// Simulates a request over the network.
async fn send_mail(customer: &str, _key: &str) -> Result<(), HandlerError> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    if customer.contains('@') { Ok(()) } else { Err(format!("{customer} is not an address").into()) }
}

#[derive(Debug, Deserialize)]
struct Export {
    pages: u32,
}

#[derive(Debug, Serialize)]
struct Exported {
    pages: u32,
    is_complete: bool,
}

/// A long job that stops gracefully: after a cancellation it returns the number of finished pages.
async fn export_accounts(ctx: Ctx, args: Export) -> Result<Exported, HandlerError> {
    for page in 0..args.pages {
        tokio::select! {
            () = ctx.cancelled() => return Ok(Exported { pages: page, is_complete: false }),
            () = export_page(page) => ctx.progress(percent(page as usize + 1, args.pages as usize), "exporting"),
        }
    }
    Ok(Exported { pages: args.pages, is_complete: true })
}

/// Simulates work on one page.
async fn export_page(_page: u32) {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[derive(Debug, Deserialize)]
struct Count {
    path: String,
}

/// A job that blocks its thread, registered as such. It checks its cancellation for each line.
fn count_lines(ctx: Ctx, args: Count) -> Result<usize, HandlerError> {
    let file = File::open(&args.path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => HandlerError::new("no_such_file", error).no_retry(),
        _ => error.into(),
    })?;
    let mut lines = 0;
    for line in BufReader::new(file).lines() {
        if ctx.is_cancelled() {
            return Err("stopped before the end of the file".into());
        }
        line?;
        lines += 1;
    }
    ctx.log(format!("{} has {lines} lines", args.path));
    Ok(lines)
}

/// The finished share in percent.
fn percent(done: usize, of: usize) -> Option<f32> {
    let of = u16::try_from(of).ok().filter(|of| *of > 0)?;
    Some(f32::from(u16::try_from(done).ok()?) * 100.0 / f32::from(of))
}

/// Handlers are tested without a database and without a daemon.
#[cfg(test)]
mod tests {
    use sched_worker::handlers::Outcome;
    use sched_worker::testing::TestRun;
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_customer_gets_an_invoice() {
        let run = TestRun::new(send_invoices).args(json!({"customers": ["a@example.org", "b@example.org"]}));
        let ended = run.fire_time("2026-11-01T00:00:00Z".parse().unwrap()).run().await;
        let expected = json!({"invoices": 2, "total_cents": 200, "month": "2026-11"});
        assert_eq!(ended.result, Some(expected), "{ended:?}");
        assert!(ended.log.starts_with("sent 100 cents for 2026-11 to a@example.org\n"), "{}", ended.log);
        assert_eq!(ended.progress[1], (Some(50.0), "invoice of b@example.org".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn empty_invoice_is_not_retried() {
        let ended = TestRun::new(send_invoices).args(json!({"customers": [], "cents": 0})).run().await;
        assert_eq!((ended.error_class, ended.may_retry), (Some("nothing_to_bill"), false));
    }

    #[tokio::test(start_paused = true)]
    async fn timed_out_export_reports_finished_pages() {
        let run =
            TestRun::new(export_accounts).args(json!({"pages": 10})).timeout(Duration::from_millis(350));
        let ended = run.run().await;
        assert_eq!(ended.outcome, Outcome::TimedOut);
        assert_eq!(ended.result, Some(json!({"pages": 3, "is_complete": false})));
    }

    #[tokio::test]
    async fn missing_file_is_not_retried() {
        let ended = TestRun::blocking(count_lines).args(json!({"path": "/no/such/file"})).run().await;
        assert_eq!((ended.error_class, ended.may_retry), (Some("no_such_file"), false));
    }
}
