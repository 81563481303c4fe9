//! A database whose clock jumps, as after a failover to a server with another clock.
//!
//! Only the sessions of the schedulers see the jump: their search path finds another
//! `clock_timestamp` first.

use system_tests::{Installation, PATIENCE};
use test_support::wait_for;

const CLOCK: &str = "
    CREATE SCHEMA skewed;
    CREATE TABLE skewed.clock AS SELECT interval '0' AS ahead;
    CREATE FUNCTION skewed.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
        'SELECT pg_catalog.clock_timestamp() + ahead FROM skewed.clock';
    GRANT USAGE ON SCHEMA skewed TO PUBLIC;
    GRANT SELECT ON skewed.clock TO PUBLIC";

/// The value of the metric line with this prefix.
fn value_of(metrics: &str, name: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn failover_after_a_jump_of_the_databases_clock_is_in_order() {
    let mut system = Installation::new().await;
    system.execute(CLOCK).await;
    let skewed = format!("{}?options=-csearch_path%3Dskewed,pg_catalog,public", system.database.url());
    system.start_schedulers(2, &[("DATABASE_URL", &skewed)]).await;
    for (ahead, seconds) in [("1 hour", 3600.0), ("0", 0.0)] {
        let (leader, term) = (system.leader().await, system.term().await);
        let jumps =
            value_of(&system.scheduler_metrics(leader).await, "sched_clock_jumps_total").unwrap_or(0.0);
        system.execute(&format!("UPDATE skewed.clock SET ahead = '{ahead}'")).await;
        // The leader cannot know the rest of its lease, so the term ends and a scheduler leads
        // again soon.
        let (next, _) = system.wait_term_after(term).await;
        wait_for("the leader to refuse the heartbeat", PATIENCE, async || {
            let metrics = system.scheduler_metrics(leader).await;
            match value_of(&metrics, "sched_clock_jumps_total") {
                Some(refused) if refused > jumps => Ok(()),
                _ => Err(metrics),
            }
        })
        .await;
        let present = system.leader().await;
        wait_for("everybody to see the new clock", PATIENCE, async || {
            let metrics = system.scheduler_metrics(present).await;
            let shown = value_of(&metrics, "sched_clock_offset_seconds").unwrap_or(f64::NAN);
            let stored = system.number("SELECT avg(clock_offset_seconds) FROM scheduler_instances").await;
            let is_near = |offset: f64| (offset - seconds).abs() < 10.0;
            if is_near(shown) && is_near(stored) { Ok(()) } else { Err(format!("{shown} and {stored}")) }
        })
        .await;
        let metrics = system.scheduler_metrics(present).await;
        let lead = (value_of(&metrics, "sched_leader "), value_of(&metrics, "sched_leader_term"));
        assert_eq!(lead.0, Some(1.0), "{metrics}");
        assert!(lead.1 >= Some(f64::from(i32::try_from(next).unwrap())), "{metrics}");
    }
    assert_eq!(system.count("SELECT count(*) FROM scheduler_instances WHERE is_leader").await, 1);
}
