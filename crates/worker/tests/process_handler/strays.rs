//! Processes that try to outlive their attempt.

use std::time::Duration;

use sched_worker::handlers::Outcome;
use tokio_util::sync::CancellationToken;

use crate::support::{
    Bench, alive_with, cancel_when_alive, execution, run_shell, shell, token, wait_for, wait_for_alive,
    zombies,
};

/// Ways to get away, each leaving one process that sleeps for the token.
const ESCAPES: [&str; 6] = [
    "setsid sleep TOKEN &",
    "(setsid sleep TOKEN >/dev/null 2>&1 &)",
    "(setsid sh -c '(sleep TOKEN &)' >/dev/null 2>&1 &) ",
    "env -i setsid sleep TOKEN &",
    "env -i setsid sh -c 'setsid sleep TOKEN >/dev/null 2>&1 &' &",
    "(trap '' TERM HUP INT; env -i setsid sleep TOKEN >/dev/null 2>&1 &)",
];

#[tokio::test]
async fn nothing_escapes_a_cancellation() {
    for escape in ESCAPES {
        let (bench, token) = (Bench::new(), token());
        // The program is a `sleep` without the token in its own arguments.
        let command = format!("{}\nexec sleep 1000", escape.replace("TOKEN", &token));
        let cancel = CancellationToken::new();
        let (report, ()) = tokio::join!(bench.run_until(execution(shell(&command)), cancel.clone()), async {
            wait_for_sleeper(&token).await;
            cancel.cancel();
        });
        assert_eq!((report.outcome, report.notes.len()), (Outcome::Cancelled, 0), "{escape}");
        assert_eq!(alive_with(&token), Vec::<u32>::new(), "{escape}");
    }
    wait_for(|| format!("no zombies, there are {:?}", zombies()), || zombies().is_empty()).await;
}

#[tokio::test]
async fn nothing_outlives_a_program_that_ends_by_itself() {
    for escape in ESCAPES {
        let (bench, token) = (Bench::new(), token());
        // It ends when the test says so, after the test has seen the escaped process.
        let go = bench.root.path().join("go");
        let wait = format!("while ! [ -e {} ]; do sleep 0.02; done", go.display());
        let command = format!("{}\n{wait}", escape.replace("TOKEN", &token));
        let (report, ()) = tokio::join!(bench.run(execution(shell(&command))), async {
            wait_for_sleeper(&token).await;
            std::fs::write(&go, "").unwrap();
        });
        assert_eq!((report.outcome, report.notes.len()), (Outcome::Succeeded, 0), "{escape}");
        assert_eq!(alive_with(&token), Vec::<u32>::new(), "{escape}");
    }
    wait_for(|| format!("no zombies, there are {:?}", zombies()), || zombies().is_empty()).await;
}

/// Waits until a process that *is* the sleep runs, not merely a shell that mentions it.
async fn wait_for_sleeper(token: &str) {
    let is_sleep =
        |pid: &u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "sleep\n");
    let sleepers = || alive_with(token).iter().filter(|pid| is_sleep(pid)).count();
    wait_for(|| format!("one sleep {token}, there are {:?}", alive_with(token)), || sleepers() == 1).await;
}

#[tokio::test]
async fn the_end_of_one_attempt_leaves_its_neighbours_alone() {
    let (bench, long, short) = (Bench::new(), token(), token());
    let config = shell(&format!("setsid sleep {long} >/dev/null 2>&1 & sleep {long}"));
    let cancel = CancellationToken::new();
    let (report, ()) = tokio::join!(bench.run_until(execution(config), cancel.clone()), async {
        wait_for_alive(&long, 3).await;
        let neighbour = format!("setsid sleep {short} >/dev/null 2>&1 & exit 0");
        let report = bench.run(execution(shell(&neighbour))).await;
        assert_eq!((report.outcome, alive_with(&short)), (Outcome::Succeeded, Vec::new()));
        assert_eq!(alive_with(&long).len(), 3);
        cancel.cancel();
    });
    assert_eq!((report.outcome, alive_with(&long)), (Outcome::Cancelled, Vec::new()));
}

#[tokio::test]
async fn processes_of_the_worker_itself_are_left_alone() {
    let token = token();
    let mut own = tokio::process::Command::new("sleep").arg(&token).kill_on_drop(true).spawn().unwrap();
    assert_eq!(run_shell("setsid sleep 0.01 & exit 0").await.outcome, Outcome::Succeeded);
    assert_eq!(alive_with(&token).len(), 1);
    own.kill().await.unwrap();
}

#[tokio::test]
async fn a_fork_storm_ends_with_its_attempt() {
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
    wait_for(|| format!("no zombies, there are {:?}", zombies()), || zombies().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_short_attempts_side_by_side_all_succeed_and_leave_no_zombie() {
    let bench = Bench::new();
    // Half of them leave a stray, so that judging strays and starting programs happen at the same time all along.
    let one = |number: usize| {
        let command = if number % 2 == 0 { "exit 0" } else { "setsid sleep 1000 >/dev/null 2>&1 & exit 0" };
        bench.run(execution(shell(command)))
    };
    for round in 0..10 {
        let reports = futures_join((0..20).map(|number| one(round * 20 + number)).collect()).await;
        for report in reports {
            assert_eq!((report.outcome, report.notes.len()), (Outcome::Succeeded, 0), "{report:?}");
        }
    }
    wait_for(|| format!("no zombies, there are {:?}", zombies()), || zombies().is_empty()).await;
}

/// Runs futures side by side on this task.
async fn futures_join<T>(futures: Vec<impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_done = true;
        for (future, result) in &mut waiting {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *result = Some(value),
                    std::task::Poll::Pending => is_done = false,
                }
            }
        }
        if is_done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    waiting.into_iter().map(|(_, result)| result.unwrap()).collect()
}

#[tokio::test]
async fn a_long_attempt_does_not_pile_up_zombies() {
    let (bench, token) = (Bench::new(), token());
    let command = format!("i=0; while [ $i -lt 30 ]; do (true &) ; i=$((i+1)); done; exec sleep {token}");
    let cancel = CancellationToken::new();
    let (report, ()) = tokio::join!(bench.run_until(execution(shell(&command)), cancel.clone()), async {
        wait_for_sleeper(&token).await;
        wait_for(|| format!("no zombies, there are {:?}", zombies()), || zombies().is_empty()).await;
        cancel.cancel();
    });
    assert_eq!(report.outcome, Outcome::Cancelled);
    assert!(report.elapsed < Duration::from_secs(30));
}

#[tokio::test]
async fn a_whole_tree_of_sessions_goes() {
    let (bench, token) = (Bench::new(), token());
    let command = format!(
        "setsid sh -c 'setsid sh -c \"setsid sleep {token} & sleep {token}\" & sleep {token}' & sleep 1000"
    );
    let report = cancel_when_alive(&bench, shell(&command), &token, 6).await;
    assert_eq!((report.outcome, alive_with(&token)), (Outcome::Cancelled, Vec::new()));
}
