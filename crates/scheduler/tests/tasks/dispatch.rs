//! How the tick splits due jobs into transactions.

use sched_model::dispatching::tick;
use sched_runtime::monotonic_clock::monotonic;

use crate::leader::run;
use crate::refused::{dispatch, three_due};

#[tokio::test(flavor = "multi_thread")]
async fn what_has_come_due_since_the_look_goes_in_the_same_transaction() {
    let leader = three_due().await;
    let others =
        |at: &str| format!("UPDATE scheduled_jobs SET next_run_at = {at} WHERE name IN ('due-2', 'due-3')");
    leader.sql(&others("now() + interval '1 hour'")).await;
    let seen = tick::outlook(&mut leader.conn().await, 100).await.unwrap();
    assert_eq!(seen.due(), 1);
    leader.sql(&others("now() - interval '1 second'")).await;
    let mut task = dispatch(&leader);
    task.ahead = Some((monotonic(), seen));
    let report = run(&mut task).await;
    assert_eq!((&report.counts["jobs"], &report.counts["batches"]), (&3.into(), &1.into()), "{report:?}");
}
