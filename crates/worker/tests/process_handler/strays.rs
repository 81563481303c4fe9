//! Processes that try to outlive their attempt.

use std::time::Duration;

use futures_util::future::join_all;
use sched_worker::handlers::Outcome;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Bench, alive_with, cancel_when_sleeping, execution, run_shell, shell, token, wait_for,
    wait_for_no_zombies, wait_for_sleepers,
};

/// Escapes, each of which leaves one process that sleeps for the token.
const ESCAPES: [&str; 6] = [
    "setsid sleep TOKEN &",
    "(setsid sleep TOKEN >/dev/null 2>&1 &)",
    "(setsid sh -c '(sleep TOKEN &)' >/dev/null 2>&1 &) ",
    "env -i setsid sleep TOKEN &",
    "env -i setsid sh -c 'setsid sleep TOKEN >/dev/null 2>&1 &' &",
    "(trap '' TERM HUP INT; env -i setsid sleep TOKEN >/dev/null 2>&1 &)",
];

#[tokio::test]
async fn no_process_escapes_a_cancellation() {
    for escape in ESCAPES {
        let (bench, token) = (Bench::new(), token());
        // The program is a `sleep` without the token in its arguments.
        let command = format!("{}\nexec sleep 1000", escape.replace("TOKEN", &token));
        let cancel = CancellationToken::new();
        let (report, ()) = tokio::join!(bench.run_until(execution(shell(&command)), cancel.clone()), async {
            wait_for_sleepers(&token, 1).await;
            cancel.cancel();
        });
        assert_eq!((report.outcome, report.notes.len()), (Outcome::Cancelled, 0), "{escape}");
        assert_eq!(alive_with(&token), Vec::<u32>::new(), "{escape}");
    }
    wait_for_no_zombies().await;
}

#[tokio::test]
async fn no_process_outlives_its_program() {
    for escape in ESCAPES {
        let (bench, token) = (Bench::new(), token());
        // The file ends the program after the test has seen the escaped process.
        let go = bench.root.path().join("go");
        let wait = format!("while ! [ -e {} ]; do sleep 0.02; done", go.display());
        let command = format!("{}\n{wait}", escape.replace("TOKEN", &token));
        let (report, ()) = tokio::join!(bench.run(execution(shell(&command))), async {
            wait_for_sleepers(&token, 1).await;
            std::fs::write(&go, "").unwrap();
        });
        assert_eq!((report.outcome, report.notes.len()), (Outcome::Succeeded, 0), "{escape}");
        assert_eq!(alive_with(&token), Vec::<u32>::new(), "{escape}");
    }
    wait_for_no_zombies().await;
}

#[tokio::test]
async fn end_of_an_attempt_spares_concurrent_attempts() {
    let (bench, long, short) = (Bench::new(), token(), token());
    // Each leaves a sleep outside the group and session of its program. Only the mark distinguishes
    // the two.
    let leaving = |token: &str| shell(&format!("(setsid sleep {token} >/dev/null 2>&1 &)\nexec sleep 1000"));
    let cancel = CancellationToken::new();
    let (report, ()) = tokio::join!(bench.run_until(execution(leaving(&long)), cancel.clone()), async {
        wait_for_sleepers(&long, 1).await;
        let neighbour = cancel_when_sleeping(&bench, leaving(&short), &short, 1).await;
        assert_eq!((neighbour.outcome, alive_with(&short)), (Outcome::Cancelled, Vec::new()));
        wait_for_sleepers(&long, 1).await;
        cancel.cancel();
    });
    assert_eq!((report.outcome, alive_with(&long)), (Outcome::Cancelled, Vec::new()));
}

#[tokio::test]
async fn own_processes_of_the_worker_are_spared() {
    let token = token();
    let mut own = tokio::process::Command::new("sleep").arg(&token).kill_on_drop(true).spawn().unwrap();
    assert_eq!(run_shell("setsid sleep 0.01 & exit 0").await.outcome, Outcome::Succeeded);
    assert_eq!(alive_with(&token).len(), 1);
    own.kill().await.unwrap();
}

#[tokio::test]
async fn fork_storm_ends_with_its_attempt() {
    let (bench, token) = (Bench::new(), token());
    let command = format!("while :; do setsid sleep {token} >/dev/null 2>&1 & sleep 0.01; done");
    let config = serde_json::json!({"shell": true, "command": command, "grace_seconds": 1});
    let cancel = CancellationToken::new();
    let (report, ()) = tokio::join!(bench.run_until(execution(config), cancel.clone()), async {
        let status = || format!("twenty processes, there are {}", alive_with(&token).len());
        wait_for(status, || alive_with(&token).len() >= 20).await;
        cancel.cancel();
    });
    assert_eq!((report.outcome, alive_with(&token)), (Outcome::Cancelled, Vec::new()));
    wait_for_no_zombies().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_short_attempts_leave_no_zombies() {
    let bench = Bench::new();
    // Half of them leave an orphan, so that the search for orphans and the start of programs
    // overlap.
    let one = |number: usize| {
        let command =
            if number.is_multiple_of(2) { "exit 0" } else { "setsid sleep 1000 >/dev/null 2>&1 & exit 0" };
        bench.run(execution(shell(command)))
    };
    for round in 0..10 {
        let reports = join_all((0..20).map(|number| one(round * 20 + number))).await;
        for report in reports {
            assert_eq!((report.outcome, report.notes.len()), (Outcome::Succeeded, 0), "{report:?}");
        }
    }
    wait_for_no_zombies().await;
}

#[tokio::test]
async fn long_attempt_accumulates_no_zombies() {
    let (bench, token) = (Bench::new(), token());
    let command = format!("i=0; while [ $i -lt 30 ]; do (true &) ; i=$((i+1)); done; exec sleep {token}");
    let cancel = CancellationToken::new();
    let (report, ()) = tokio::join!(bench.run_until(execution(shell(&command)), cancel.clone()), async {
        wait_for_sleepers(&token, 1).await;
        wait_for_no_zombies().await;
        cancel.cancel();
    });
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert!(report.elapsed < Duration::from_secs(30));
}

#[tokio::test]
async fn tree_of_sessions_is_killed() {
    let (bench, token) = (Bench::new(), token());
    let command = format!(
        "setsid sh -c 'setsid sh -c \"setsid sleep {token} & sleep {token}\" & sleep {token}' & sleep 1000"
    );
    let report = cancel_when_sleeping(&bench, shell(&command), &token, 3).await;
    assert_eq!((report.outcome, alive_with(&token)), (Outcome::Cancelled, Vec::new()));
}
