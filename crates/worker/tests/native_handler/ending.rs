use std::collections::BTreeMap;
use std::time::Duration;

use sched_worker::handlers::Outcome;
use sched_worker::testing::{TestReport, TestRun};
use sched_worker::{Ctx, HandlerError, RunDetails, Upstream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

#[derive(Deserialize)]
struct Invoice {
    customer: Customer,
    #[serde(default)]
    amounts: Vec<i64>,
}

#[derive(Deserialize)]
struct Customer {
    id: u32,
}

#[derive(Serialize)]
struct Sent {
    customer: u32,
    total: i64,
}

async fn invoice(_: Ctx, args: Invoice) -> Result<Sent, HandlerError> {
    Ok(Sent { customer: args.customer.id, total: args.amounts.iter().sum() })
}

fn error(report: &TestReport) -> (&str, bool, &str) {
    assert_eq!((report.outcome, &report.result), (Outcome::Failed, &None));
    (report.error_class.unwrap(), report.may_retry, report.error_message.as_deref().unwrap())
}

#[tokio::test]
async fn returned_value_becomes_the_result() {
    let args = json!({"customer": {"id": 7}, "amounts": [1, 2]});
    let report = TestRun::new(invoice).args(args).run().await;
    assert_eq!(report.outcome, Outcome::Succeeded);
    assert_eq!(report.result, Some(json!({"customer": 7, "total": 3})));
    assert_eq!((report.error_class, report.error_message, report.notes), (None, None, vec![]));
}

#[tokio::test]
async fn invalid_args_name_their_path_and_are_not_retried() {
    let report = TestRun::new(invoice).args(json!({"customer": {"id": "seven"}})).run().await;
    let (class, may_retry, message) = error(&report);
    assert_eq!((class, may_retry), ("invalid_args", false));
    assert!(message.contains("customer.id") && message.contains("expected u32"), "{message}");

    let report = TestRun::blocking(|_, _: Invoice| Ok::<_, HandlerError>(())).args(json!({})).run().await;
    assert_eq!(error(&report).0, "invalid_args");
}

#[tokio::test]
async fn handler_errors_keep_class_and_causes() {
    let failing = |error: fn() -> HandlerError| {
        TestRun::new(move |_, _: Value| async move { Err::<(), _>(error()) }).run()
    };
    let report = failing(|| "plain text".into()).await;
    assert_eq!(error(&report), ("handler_error", true, "plain text"));
    let report = failing(|| HandlerError::new("rate_limited", "later")).await;
    assert_eq!(error(&report), ("rate_limited", true, "later"));
    let report = failing(|| HandlerError::new("closed_account", "gone").no_retry()).await;
    assert_eq!(error(&report), ("closed_account", false, "gone"));
    let report = failing(|| HandlerError::fatal("never").with_class("bad_day")).await;
    assert_eq!(error(&report), ("bad_day", false, "never"));

    let with_context = TestRun::new(|_, _: Value| async {
        use anyhow::Context as _;
        "x".parse::<u8>().context("failed to read the amount")
    });
    let report = with_context.run().await;
    assert_eq!(
        error(&report),
        ("handler_error", true, "failed to read the amount: invalid digit found in string")
    );
    let io = TestRun::new(|_, _: Value| async { Err::<(), _>(std::io::Error::other("disk")) }).run().await;
    assert_eq!(error(&io).2, "disk");
}

#[tokio::test]
async fn panic_fails_the_attempt_with_its_location() {
    let early = TestRun::new(|_, _: Value| {
        assert!(std::hint::black_box(false), "before the future");
        async { Ok::<_, HandlerError>(()) }
    });
    let late = TestRun::new(|_, _: Value| async {
        tokio::task::yield_now().await;
        assert!(std::hint::black_box(false), "after an await");
        Ok::<_, HandlerError>(())
    });
    let blocking = TestRun::blocking(|_, _: Value| {
        assert!(std::hint::black_box(false), "on a thread");
        Ok::<_, HandlerError>(())
    });
    for (run, said) in [(early, "before the future"), (late, "after an await"), (blocking, "on a thread")] {
        let report = run.run().await;
        let (class, may_retry, message) = error(&report);
        assert_eq!((class, may_retry), ("panic", true));
        assert!(message.starts_with("panicked at ") && message.contains("ending.rs:"), "{message}");
        assert!(message.ends_with(said), "{message}");
        // With RUST_BACKTRACE=1 the backtrace follows.
        let traceback = report.traceback.as_deref().unwrap();
        assert_eq!(traceback.lines().next(), Some(message), "{traceback}");
        assert_eq!(report.log, "", "what the handler logs is its own");
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_are_kept_for_every_outcome() {
    let reports = |ctx: Ctx, stays: bool| async move {
        ctx.metric("rows", 3);
        ctx.metric("rows", 1200_usize);
        ctx.metric("share", 0.25);
        ctx.metric("nothing", f64::NAN);
        ctx.metric("No Name", 1);
        if stays {
            ctx.cancelled().await;
        }
        Ok::<_, HandlerError>(())
    };
    for (stays, outcome) in [(false, Outcome::Succeeded), (true, Outcome::TimedOut)] {
        let run = TestRun::new(reports).args(json!(stays)).timeout(Duration::from_secs(1));
        let report = run.run().await;
        assert_eq!((report.outcome, report.metrics), (outcome, Some(json!({"rows": 1200, "share": 0.25}))));
        assert_eq!(
            report.notes,
            ["metric \"nothing\" is not a finite number"],
            "only the first invalid metric is noted"
        );
    }
    let silent = TestRun::new(|_, _: Value| async { Ok::<_, HandlerError>(()) }).run().await;
    assert_eq!((silent.metrics, silent.traceback), (None, None));
}

#[tokio::test]
async fn log_and_progress_are_kept() {
    let report = TestRun::new(|ctx: Ctx, _: Value| async move {
        ctx.log("begin");
        ctx.progress(None, "looking");
        ctx.progress(250.0, "more than \0 all");
        ctx.log(format!("end of attempt {}", ctx.attempt()));
        Ok::<_, HandlerError>(())
    });
    let report = report.attempt(3).run().await;
    assert_eq!(report.log, "begin\nend of attempt 3\n");
    let expected = [(None, "looking".to_owned()), (Some(100.0), "more than \u{FFFD} all".to_owned())];
    assert_eq!(report.progress, expected);
}

#[tokio::test]
async fn context_describes_the_attempt() {
    let run = TestRun::new(|ctx: Ctx, _: Value| async move {
        let left = ctx.remaining();
        Ok::<_, HandlerError>(json!({
            "job": ctx.job_name(), "attempt": ctx.attempt(), "fire": ctx.fire_time(), "late": ctx.lateness().as_secs(),
            "catch_up": ctx.is_catch_up(), "key": ctx.idempotency_key(), "args": ctx.raw_args(),
            "in_time": left > Duration::from_secs(5) && left <= Duration::from_secs(60),
            "secret": ctx.secret("token")?, "other": ctx.secret("other").unwrap_err().to_string(),
        }))
    });
    let run = run.job_name("nightly").attempt(2).fire_time("2026-11-21T04:00:00Z".parse().unwrap());
    let run = run.catching_up(Duration::from_secs(90)).idempotency_key("k").secret("token", "s3cret");
    let report = run.args(json!({"a": 1})).run().await;
    let expected = json!({
        "job": "nightly", "attempt": 2, "fire": "2026-11-21T04:00:00Z", "late": 90, "catch_up": true, "key": "k",
        "args": {"a": 1}, "in_time": true, "secret": "s3cret",
        "other": "handler_config.secrets of the function does not name \"other\"",
    });
    assert_eq!(report.result, Some(expected), "{report:?}");
}

#[tokio::test]
async fn context_has_the_run_that_it_follows() {
    let rows = |ctx: Ctx, _: Value| async move {
        let upstream = ctx.upstream().map(|run| json!([run.job, run.status, run.result]));
        Ok::<_, HandlerError>(upstream)
    };
    let upstream = Upstream {
        run_id: Uuid::nil(),
        job: "load".to_owned(),
        status: "succeeded",
        result: Some(json!({"rows": 3})),
    };
    let report = TestRun::new(rows).upstream(upstream).run().await;
    assert_eq!(report.result, Some(json!(["load", "succeeded", {"rows": 3}])));
    assert_eq!(TestRun::new(rows).run().await.result, None);
}

#[tokio::test]
async fn unstorable_result_is_dropped_with_a_note() {
    let large = TestRun::new(|_, _: Value| async { Ok::<_, HandlerError>("x".repeat(1024 * 1024)) });
    let report = large.run().await;
    assert_eq!((report.outcome, report.result), (Outcome::Succeeded, None));
    assert_eq!(report.notes, ["the result was not stored: it is larger than 1048576 bytes"]);

    let odd = TestRun::new(|_, _: Value| async { Ok::<_, HandlerError>(BTreeMap::from([((1, 2), 3)])) });
    let report = odd.run().await;
    assert_eq!((report.outcome, report.result), (Outcome::Succeeded, None));
    assert!(report.notes[0].contains("key must be a string"), "{:?}", report.notes);

    let nul = TestRun::new(|_, _: Value| async { Ok::<_, HandlerError>("a\0b") }).run().await;
    assert_eq!(nul.result, Some(json!("a\u{FFFD}b")));
}

async fn surroundings(ctx: Ctx, (): ()) -> Result<Value, HandlerError> {
    let details = ctx.details().map(|details| json!([details.tenant, details.queue, details.user]));
    Ok(json!({"trigger": ctx.trigger(), "timeout": ctx.timeout().as_secs(), "details": details}))
}

#[tokio::test]
async fn context_has_details_of_functions_that_request_them() {
    let details = RunDetails { tenant: "acme".into(), queue: "mail".into(), ..RunDetails::default() };
    let with = TestRun::new(surroundings).args(Value::Null).details(details).run().await;
    assert_eq!(
        with.result,
        Some(json!({"trigger": "api", "timeout": 60, "details": ["acme", "mail", null]}))
    );
    let without = TestRun::new(surroundings).args(Value::Null).run().await;
    assert_eq!(without.result, Some(json!({"trigger": "api", "timeout": 60, "details": null})));
}
