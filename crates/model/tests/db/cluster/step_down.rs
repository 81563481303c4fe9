//! Requests to step down: for one term, returned with the heartbeat.

use std::time::Duration;

use sched_model::cluster::leadership::{self, Heartbeat, NewInstance, TakeOver};
use sched_model::domain::ids::{InstanceId, Term};
use sched_model::{Conn, transact};
use test_support::fixture::Fixture;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(30);

const ENDS: &str = "SELECT end_reason FROM leader_terms ORDER BY term";

async fn candidate(conn: &mut Conn) -> InstanceId {
    let id = InstanceId(Uuid::new_v4());
    let instance = NewInstance { id, hostname: "test".into(), pid: 1, version: "0.0.0".into() };
    leadership::register(conn, &instance).await.unwrap();
    id
}

async fn lead(conn: &mut Conn, id: InstanceId) -> Term {
    match leadership::take_over(conn, id, LEASE).await.unwrap() {
        TakeOver::Leading(term) => term,
        TakeOver::Held => panic!("{id} does not lead"),
    }
}

async fn is_asked(conn: &mut Conn, id: InstanceId) -> bool {
    match leadership::heartbeat(conn, id, None, &[]).await.unwrap() {
        Heartbeat::Recorded { step_down, .. } => step_down,
        Heartbeat::Unregistered => panic!("{id} is not registered"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn step_down_request_reaches_only_the_leader() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (leader, standby) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let term = lead(&mut conn, leader).await;
    assert!(!is_asked(&mut conn, leader).await);
    let asked = leadership::request_step_down(&mut conn).await.unwrap().unwrap();
    assert_eq!((asked.id, asked.term, asked.step_down_term), (leader, Some(term), Some(term)));
    assert!(asked.step_down_requested_at().is_some());
    assert!(is_asked(&mut conn, leader).await);
    assert!(!is_asked(&mut conn, standby).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_request_keeps_the_first() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let leader = candidate(&mut conn).await;
    lead(&mut conn, leader).await;
    let first = leadership::request_step_down(&mut conn).await.unwrap().unwrap();
    let second = leadership::request_step_down(&mut conn).await.unwrap().unwrap();
    assert_eq!(first.step_down_requested_at, second.step_down_requested_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_without_a_leader_returns_none() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let standby = candidate(&mut conn).await;
    assert!(leadership::request_step_down(&mut conn).await.unwrap().is_none());
    lead(&mut conn, standby).await;
    assert!(!is_asked(&mut conn, standby).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn request_applies_to_its_term_only() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let old = lead(&mut conn, first).await;
    leadership::request_step_down(&mut conn).await.unwrap().unwrap();
    assert!(leadership::resign(&mut conn, first, old).await.unwrap());
    let next = lead(&mut conn, second).await;
    assert!(!is_asked(&mut conn, second).await, "the request was for the previous leader");
    assert!(leadership::resign(&mut conn, second, next).await.unwrap());
    lead(&mut conn, first).await;
    assert!(!is_asked(&mut conn, first).await, "the request was for an earlier term");
    let shown = leadership::list(&mut conn).await.unwrap();
    assert!(shown[0].is_leader && shown[0].step_down_requested_at.is_some());
    assert_eq!(shown[0].step_down_requested_at(), None);
    assert_eq!(world.rows(ENDS).await, [["stepped_down"], ["resigned"], ["-"]]);
    let asked = leadership::request_step_down(&mut conn).await.unwrap().unwrap();
    assert!(asked.step_down_requested_at() > shown[0].step_down_requested_at);
    assert!(is_asked(&mut conn, first).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_leader_did_not_step_down() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    lead(&mut conn, first).await;
    leadership::request_step_down(&mut conn).await.unwrap().unwrap();
    world.sql("UPDATE scheduler_instances SET last_heartbeat = last_heartbeat - interval '31 seconds'").await;
    lead(&mut conn, second).await;
    assert_eq!(world.rows(ENDS).await, [["expired"], ["-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_change_event_has_the_end_reason() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let (first, second) = (candidate(&mut conn).await, candidate(&mut conn).await);
    let term = lead(&mut conn, first).await;
    assert!(leadership::resign(&mut conn, first, term).await.unwrap());
    let next = lead(&mut conn, second).await;
    let events = "SELECT payload->>'instance_id', payload->>'term', payload->>'former_term', payload->>'former_end_reason'
                  FROM events WHERE event_type = 'leader_changed' ORDER BY id";
    let text = |value: &dyn std::fmt::Display| value.to_string();
    assert_eq!(
        world.rows(events).await,
        [
            [text(&first), text(&term.0), text(&"-"), text(&"-")],
            [text(&second), text(&next.0), text(&term.0), text(&"resigned")]
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeat_stores_the_clock_offset() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let id = candidate(&mut conn).await;
    leadership::heartbeat(&mut conn, id, Some(-0.25), &[]).await.unwrap();
    assert_eq!(leadership::list(&mut conn).await.unwrap()[0].clock_offset_seconds, Some(-0.25));
}

/// The leader's transactions continue beside it.
#[tokio::test(flavor = "multi_thread")]
async fn request_does_not_wait_for_the_leader() {
    let world = Fixture::new().await;
    let (mut leading, mut asking) = (world.conn().await, world.conn().await);
    let leader = candidate(&mut leading).await;
    let term = lead(&mut leading, leader).await;
    let asked = transact(&mut leading, "test", async |conn: &mut Conn| {
        sched_model::dispatching::tick::fence(conn, leader, term).await?;
        let mut other = world.conn().await;
        leadership::request_step_down(&mut other).await.map(|asked| asked.is_some())
    });
    assert!(asked.await.unwrap());
    assert!(is_asked(&mut asking, leader).await);
}
