use std::time::Duration;

use sched_worker::handlers::{Execution, Live, LiveEvent, Outcome};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, alive_with, entries, execution, run, run_shell, shell, token, within};

#[tokio::test]
async fn endless_output_is_bounded_and_counted() {
    let mut execution = execution(json!({"program": "yes", "args": ["0123456789"]}));
    execution.timeout = Duration::from_millis(500);
    let report = within(Duration::from_secs(30), Bench::new().run(execution)).await;
    assert_eq!(report.outcome, Outcome::TimedOut);
    let kept = (report.stdout.head.len() + report.stdout.tail.len()) as u64;
    assert_eq!(kept, 256 * 1024);
    assert!(report.stdout.total_bytes > 4 * kept, "only {} bytes came", report.stdout.total_bytes);
    assert_eq!(report.stdout.dropped_bytes, report.stdout.total_bytes - kept);
}

#[tokio::test]
async fn program_reports_progress() {
    let (bench, token) = (Bench::new(), token());
    let (live, mut events) = Live::channel(10);
    let command = format!(
        r#"echo "40% half of it" > "$SCHED_PROGRESS_FILE"; read -r go < go; echo done >> "$SCHED_PROGRESS_FILE"; sleep {token}"#
    );
    let place = tempfile::tempdir().unwrap();
    nix::unistd::mkfifo(&place.path().join("go"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let config = json!({"shell": true, "command": command, "cwd": place.path()});
    let cancel = CancellationToken::new();
    let run = bench.run_until(Execution { live, ..execution(config) }, cancel.clone());
    let watch = async {
        let half = LiveEvent::Progress { percent: Some(40.0), message: "half of it".into() };
        assert_eq!(events.recv().await, Some(half));
        tokio::fs::write(place.path().join("go"), "go\n").await.unwrap();
        assert_eq!(events.recv().await, Some(LiveEvent::Progress { percent: None, message: "done".into() }));
        cancel.cancel();
    };
    let (report, ()) = within(Duration::from_secs(60), Box::pin(async { tokio::join!(run, watch) })).await;
    assert_eq!((report.outcome, entries(bench.root.path())), (Outcome::Cancelled, 0));
}

#[tokio::test]
async fn head_and_tail_of_long_output_are_kept() {
    let report = run(json!({"program": "seq", "args": ["1000000"], "max_output_bytes": 1024})).await;
    assert!(report.stdout.head.starts_with("1\n2\n3\n"));
    assert!(report.stdout.tail.ends_with("999999\n1000000\n"));
    assert_eq!((report.stdout.head.len(), report.stdout.tail.len()), (512, 512));
    assert_eq!(report.stdout.total_bytes, 6_888_896);
}

#[tokio::test]
async fn both_streams_are_read_concurrently() {
    let command = "for i in 1 2 3 4; do head -c 200000 /dev/zero; head -c 200000 /dev/zero >&2; done";
    let report = run_shell(command).await;
    assert_eq!((report.stdout.total_bytes, report.stderr.total_bytes), (800_000, 800_000));
}

#[tokio::test]
async fn unstorable_bytes_are_replaced() {
    let report = run_shell(r"printf 'a\000b\377c\342\202'").await;
    assert_eq!(report.stdout.head, "a\u{FFFD}b\u{FFFD}c\u{FFFD}");
    assert_eq!(report.stdout.total_bytes, 7);
}

#[tokio::test]
async fn last_output_of_a_background_process_is_read() {
    let report = run_shell("(sleep 0.2; echo late) & echo early").await;
    assert_eq!((report.outcome, report.stdout.head.as_str()), (Outcome::Succeeded, "early\nlate\n"));
}

#[tokio::test]
async fn background_process_with_open_pipe_does_not_delay_report() {
    let token = token();
    let report = run_shell(&format!("sleep {token} & echo done")).await;
    assert_eq!((report.outcome, report.stdout.head.as_str()), (Outcome::Succeeded, "done\n"));
    assert!(report.elapsed < Duration::from_secs(10), "{:?}", report.elapsed);
    assert_eq!(alive_with(&token), Vec::<u32>::new());
}

#[tokio::test]
async fn program_with_closed_output_is_awaited() {
    let report = Bench::new().run(execution(shell("exec >&- 2>&-; sleep 0.2; exit 5"))).await;
    assert_eq!(report.exit_code, Some(5));
}
