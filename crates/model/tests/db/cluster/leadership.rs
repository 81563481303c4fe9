//! One leader at a time, growing terms, and no write of an old term in a new one.

use std::time::Duration;

use diesel_async::SimpleAsyncConnection;
use futures_util::future::join_all;
use sched_model::cluster::leadership::{self, Heartbeat, NewInstance, TakeOver};
use sched_model::domain::ids::{InstanceId, Term};
use sched_model::{Conn, Database, DatabaseSettings, DbError, dispatching::tick};
use test_support::fixture::{BEGIN, Fixture};
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);

const EXPIRE: &str =
    "UPDATE scheduler_instances SET last_heartbeat = last_heartbeat - interval '31 seconds' WHERE is_leader";

const ENDS: &str = "SELECT end_reason FROM leader_terms ORDER BY term";

pub(crate) async fn candidate(conn: &mut Conn) -> InstanceId {
    let id = InstanceId(Uuid::new_v4());
    let instance = NewInstance { id, hostname: "test".into(), pid: 1, version: "0.0.0".into() };
    leadership::register(conn, &instance).await.unwrap();
    id
}

pub(crate) async fn lead(conn: &mut Conn, id: InstanceId) -> Term {
    match leadership::take_over(conn, id, LEASE).await.unwrap() {
        TakeOver::Leading(term) => term,
        TakeOver::Held => panic!("{id} does not lead"),
    }
}

async fn impatient(world: &Fixture, lock_timeout: Duration) -> Conn {
    let settings = DatabaseSettings { lock_timeout, ..DatabaseSettings::new(world.db.url(), "tests") };
    Database::new(&settings).unwrap().dedicated().await.unwrap()
}

async fn assert_term_is_over(conn: &mut Conn, id: InstanceId, term: Term) {
    let fenced = tick::fence(conn, id, term).await;
    assert!(matches!(fenced, Err(DbError::TermOver)), "{fenced:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_scheduler_leads_while_its_lease_holds() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let term = lead(&mut conn, first).await;
    for id in [second, first] {
        assert_eq!(leadership::take_over(&mut conn, id, LEASE).await.unwrap(), TakeOver::Held);
    }
    let listed = leadership::list(&mut conn).await.unwrap();
    assert_eq!(
        listed.iter().map(|i| (i.id, i.term)).collect::<Vec<_>>(),
        [(first, Some(term)), (second, None)]
    );
    assert!(listed[0].is_leader && listed[0].leader_since.is_some() && !listed[1].is_leader);
    assert_eq!(world.rows(ENDS).await, [["-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_expired_is_replaced_under_a_larger_term() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let old = lead(&mut conn, first).await;
    world.sql(EXPIRE).await;
    let new = lead(&mut conn, second).await;
    assert!(new > old, "{new:?} after {old:?}");
    assert_eq!(world.rows(ENDS).await, [["expired"], ["-"]]);
    let heartbeat = leadership::heartbeat(&mut conn, first, None, &[]).await.unwrap();
    assert!(matches!(heartbeat, Heartbeat::Recorded { term: None, .. }), "{heartbeat:?}");
    assert_term_is_over(&mut conn, first, old).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_candidates_at_once_exactly_one_leads() {
    let world = Fixture::new().await;
    let mut candidates = Vec::new();
    for _ in 0..20 {
        let mut conn = world.conn().await;
        let id = candidate(&mut conn).await;
        candidates.push((conn, id));
    }
    let mut latest = Term(0);
    for round in 0..5_usize {
        let race = candidates.iter_mut().map(|(conn, id)| leadership::take_over(conn, *id, LEASE));
        let results: Vec<TakeOver> = join_all(race).await.into_iter().map(Result::unwrap).collect();
        let leaders: Vec<&TakeOver> = results.iter().filter(|result| **result != TakeOver::Held).collect();
        assert!(
            matches!(leaders[..], [TakeOver::Leading(term)] if *term > latest),
            "round {round}: {results:?}"
        );
        let in_database = "SELECT count(*), max(term) FROM scheduler_instances WHERE is_leader";
        let row = world.rows(in_database).await.remove(0);
        latest = Term(row[1].parse().unwrap());
        assert_eq!((row[0].as_str(), leaders[0]), ("1", &TakeOver::Leading(latest)), "round {round}");
        assert_eq!(world.number("SELECT count(*) FROM leader_terms WHERE ended_at IS NULL").await, 1);
        assert_eq!(world.rows(ENDS).await.len(), round + 1);
        world.sql(EXPIRE).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terms_grow_after_any_end() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let id = candidate(&mut conn).await;
    let mut terms = vec![lead(&mut conn, id).await];
    for resigns in [true, false, true] {
        if resigns {
            assert!(leadership::resign(&mut conn, id, terms[terms.len() - 1]).await.unwrap());
        } else {
            world.sql(EXPIRE).await;
        }
        terms.push(lead(&mut conn, id).await);
    }
    assert!(terms.is_sorted_by(|a, b| a < b), "{terms:?}");
    assert_eq!(world.rows(ENDS).await, [["resigned"], ["expired"], ["resigned"], ["-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn resigning_a_foreign_term_changes_nothing() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let old = lead(&mut conn, first).await;
    world.sql(EXPIRE).await;
    let new = lead(&mut conn, second).await;
    let state = "SELECT i.*, t.* FROM scheduler_instances i, leader_terms t ORDER BY i.id, t.term";
    let before = world.rows(state).await;
    for (id, term) in [(first, old), (first, new), (second, old)] {
        assert!(!leadership::resign(&mut conn, id, term).await.unwrap(), "{id} {term:?}");
    }
    assert_eq!(world.rows(state).await, before);
    assert_eq!(before.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn fence_admits_only_the_present_term() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let old = lead(&mut conn, first).await;
    tick::fence(&mut conn, first, old).await.unwrap();
    assert_term_is_over(&mut conn, second, old).await;
    assert!(leadership::resign(&mut conn, first, old).await.unwrap());
    assert_term_is_over(&mut conn, first, old).await;
    let new = lead(&mut conn, first).await;
    assert_term_is_over(&mut conn, first, old).await;
    tick::fence(&mut conn, first, new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn take_over_waits_for_transactions_in_flight() {
    let world = Fixture::new().await;
    let (mut leading, mut standing_by) = (world.conn().await, world.conn().await);
    let (first, second) = (candidate(&mut leading).await, candidate(&mut standing_by).await);
    let old = lead(&mut leading, first).await;
    leading.batch_execute(BEGIN).await.unwrap();
    tick::fence(&mut leading, first, old).await.unwrap();
    world.sql(EXPIRE).await;
    let in_flight = async {
        world.wait_for_blocked(1).await;
        tick::fence(&mut leading, first, old).await.unwrap();
        leading
            .batch_execute(
                "INSERT INTO audit_log (actor, action, target_type, target_id) VALUES ('old', 'x', 'x', 'x')",
            )
            .await
            .unwrap();
        leading.batch_execute("COMMIT").await.unwrap();
    };
    let (new, ()) = tokio::join!(lead(&mut standing_by, second), in_flight);
    assert!(new > old);
    assert_eq!(world.number("SELECT count(*) FROM audit_log WHERE actor = 'old'").await, 1);
    assert_term_is_over(&mut leading, first, old).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn take_over_times_out_and_succeeds_later() {
    let world = Fixture::new().await;
    let (mut leading, mut standing_by) =
        (world.conn().await, impatient(&world, Duration::from_millis(100)).await);
    let (first, second) = (candidate(&mut leading).await, candidate(&mut standing_by).await);
    let old = lead(&mut leading, first).await;
    leading.batch_execute(BEGIN).await.unwrap();
    tick::fence(&mut leading, first, old).await.unwrap();
    world.sql(EXPIRE).await;
    let taken = leadership::take_over(&mut standing_by, second, LEASE).await;
    assert!(matches!(taken, Err(DbError::TimedOut(_))), "{taken:?}");
    assert_eq!(world.rows(ENDS).await, [["-"]]);
    leading.batch_execute("COMMIT").await.unwrap();
    assert!(lead(&mut standing_by, second).await > old);
}

#[tokio::test(flavor = "multi_thread")]
async fn open_fence_blocks_no_renewals() {
    let world = Fixture::new().await;
    let mut leading = world.conn().await;
    let id = candidate(&mut leading).await;
    let term = lead(&mut leading, id).await;
    leading.batch_execute(BEGIN).await.unwrap();
    tick::fence(&mut leading, id, term).await.unwrap();
    world.sql(EXPIRE).await;
    let mut other = impatient(&world, Duration::from_millis(100)).await;
    let renewed = leadership::heartbeat(&mut other, id, None, &[]).await.unwrap();
    assert!(matches!(renewed, Heartbeat::Recorded { term: Some(held), .. } if held == term), "{renewed:?}");
    tick::fence(&mut other, id, term).await.unwrap();
    let standby = candidate(&mut other).await;
    assert_eq!(leadership::take_over(&mut other, standby, LEASE).await.unwrap(), TakeOver::Held);
    leading.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_from_the_future_counts_as_expired() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let old = lead(&mut conn, first).await;
    // The database's clock was set back by an hour.
    world
        .sql(
            "UPDATE scheduler_instances SET last_heartbeat = last_heartbeat + interval '1 hour';
             UPDATE leader_terms SET started_at = started_at + interval '1 hour'",
        )
        .await;
    assert!(lead(&mut conn, second).await > old);
    assert_eq!(world.rows(ENDS).await, [["expired"], ["-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_scheduler_must_register_again() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (leader, silent, living) =
        (candidate(&mut conn).await, candidate(&mut conn).await, candidate(&mut conn).await);
    let term = lead(&mut conn, leader).await;
    let silence = format!(
        "UPDATE scheduler_instances SET last_heartbeat = last_heartbeat - interval '1 hour' WHERE id <> '{living}'"
    );
    world.sql(&silence).await;
    assert_eq!(leadership::remove_stale(&mut conn, Duration::from_secs(600)).await.unwrap(), [silent]);
    assert_eq!(leadership::heartbeat(&mut conn, silent, None, &[]).await.unwrap(), Heartbeat::Unregistered);
    assert_eq!(leadership::take_over(&mut conn, silent, LEASE).await.unwrap(), TakeOver::Held);
    assert!(lead(&mut conn, living).await > term, "the others go on");
    assert_eq!(leadership::list(&mut conn).await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_is_unregistered_only_after_it_resigned() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let id = candidate(&mut conn).await;
    let term = lead(&mut conn, id).await;
    leadership::unregister(&mut conn, id).await.unwrap();
    assert_eq!(leadership::list(&mut conn).await.unwrap().len(), 1);
    assert!(leadership::resign(&mut conn, id, term).await.unwrap());
    leadership::unregister(&mut conn, id).await.unwrap();
    assert!(leadership::list(&mut conn).await.unwrap().is_empty());
}

/// Moves the term an hour into the past; its lease expired a second ago.
const SILENT: &str = "UPDATE leader_terms SET started_at = started_at - interval '1 hour' WHERE ended_at IS NULL;
                      UPDATE scheduler_instances SET last_heartbeat = last_heartbeat - interval '31 seconds' WHERE is_leader";

#[tokio::test(flavor = "multi_thread")]
async fn history_shows_the_time_without_a_leader() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let term = lead(&mut conn, first).await;
    leadership::heartbeat(&mut conn, first, None, &[]).await.unwrap();
    let expired = "SELECT lease_expired_at IS NOT NULL FROM leader_history ORDER BY term";
    assert_eq!(world.rows(expired).await, [["f"]], "renewed in time");

    // The leader was stopped, renews too late, and gives up its term.
    world.sql(SILENT).await;
    assert_eq!(world.rows(expired).await, [["t"]], "visible before any scheduler notices it");
    leadership::heartbeat(&mut conn, first, None, &[]).await.unwrap();
    leadership::heartbeat(&mut conn, first, None, &[]).await.unwrap();
    assert_eq!(world.rows(expired).await, [["t"]], "a renewal does not hide it");
    assert!(leadership::resign(&mut conn, first, term).await.unwrap());

    // A standby replaces a silent leader.
    lead(&mut conn, second).await;
    world.sql(SILENT).await;
    lead(&mut conn, first).await;
    assert_eq!(world.rows(ENDS).await, [["resigned"], ["expired"], ["-"]]);
    let history = "SELECT lease_expired_at < ended_at, led_for < ended_at - started_at FROM leader_history ORDER BY term LIMIT 2";
    let gap = "SELECT without_leader BETWEEN interval '1 second' AND interval '1 minute' FROM leader_history ORDER BY term DESC LIMIT 1";
    assert_eq!(world.text(gap).await, "t");
    assert_eq!(world.rows(history).await, [["t", "t"], ["t", "t"]]);
}
