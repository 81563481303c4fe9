//! Leader election against a real database.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::time::Duration;

use sched_model::cluster::leadership::{self, NewInstance};
use sched_model::domain::ids::InstanceId;
use sched_model::domain::lease::Lease;
use sched_scheduler::leadership::{Leadership, Loss, Role, Timing};
use test_support::{Client, TestDatabase};
use tokio::sync::watch;
use uuid::Uuid;

fn scheduler(db: &TestDatabase) -> Leadership {
    let instance = NewInstance {
        id: InstanceId(Uuid::new_v4()),
        hostname: "test".into(),
        pid: 1,
        version: "0.0.0".into(),
    };
    let heartbeat = Duration::from_secs(10);
    let timing = Timing {
        heartbeat,
        lease: Lease::new(heartbeat * 3, heartbeat).unwrap(),
        stalled_after: heartbeat * 100,
    };
    Leadership::new(db.database(), instance, timing, watch::channel(Vec::new()).1)
}

fn role(leadership: &Leadership) -> Role {
    *leadership.role().borrow()
}

fn leads(leadership: &Leadership) -> bool {
    role(leadership) != Role::Standby
}

/// The end reasons of all terms, oldest first; `None` for the current term.
async fn ends(client: &Client) -> Vec<Option<String>> {
    let rows = client.query("SELECT end_reason FROM leader_terms ORDER BY term", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

async fn ask_to_step_down(db: &TestDatabase) {
    let mut conn = db.database().dedicated().await.unwrap();
    assert!(leadership::request_step_down(&mut conn).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_leads_and_the_second_takes_over_when_it_resigns() {
    let db = TestDatabase::new().await;
    let (mut first, mut second) = (scheduler(&db), scheduler(&db));
    for _ in 0..2 {
        first.beat().await;
        second.beat().await;
        assert!(leads(&first) && !leads(&second));
    }
    let known = *first.vitals().borrow();
    assert!(known.leader_since.is_some() && known.trust_left() > Some(Duration::from_secs(20)), "{known:?}");
    assert!(known.clock_offset.is_some() && known.round_trip.is_some(), "{known:?}");
    let term = role(&first).term();
    first.resign(Loss::Stopped).await;
    assert!(!leads(&first));
    assert_eq!(first.vitals().borrow().leader_since, None);
    second.beat().await;
    assert!(role(&second).term() > term);
    assert_eq!(ends(&db.client().await).await, [Some("resigned".to_owned()), None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_term_makes_the_leader_stand_down_even_under_its_own_identity() {
    let db = TestDatabase::new().await;
    let mut leader = scheduler(&db);
    leader.beat().await;
    let term = role(&leader).term();
    let client = db.client().await;
    client.batch_execute("UPDATE scheduler_instances SET term = nextval('leader_term_seq')").await.unwrap();
    leader.beat().await;
    assert!(!leads(&leader), "the scheduler has an unknown term");
    leader.beat().await;
    assert!(role(&leader).term() > term, "that term ended, and another began");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_asked_to_steps_down_and_leaves_the_lead_to_another() {
    let db = TestDatabase::new().await;
    let (mut first, mut second) = (scheduler(&db), scheduler(&db));
    first.beat().await;
    ask_to_step_down(&db).await;
    first.beat().await;
    assert!(!leads(&first));
    first.beat().await;
    assert!(!leads(&first), "the scheduler does not take over at once");
    second.beat().await;
    assert!(leads(&second));
    second.beat().await;
    assert!(leads(&second), "the request was for another term");
    assert_eq!(ends(&db.client().await).await, [Some("stepped_down".to_owned()), None]);
}

/// A scheduler that keeps its term would renew a lease without a working leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_term_that_could_not_be_resigned_is_given_up_with_the_next_heartbeat() {
    let db = TestDatabase::new().await;
    let (mut first, mut second) = (scheduler(&db), scheduler(&db));
    first.beat().await;
    ask_to_step_down(&db).await;
    let holder = db.client().await;
    holder
        .batch_execute("BEGIN; SELECT FROM scheduler_instances WHERE is_leader FOR KEY SHARE")
        .await
        .unwrap();
    // Resigning waits for this transaction, as for one of the leader, until the lock time-out.
    first.beat().await;
    assert!(!leads(&first));
    second.beat().await;
    assert_eq!((leads(&second), ends(&db.client().await).await), (false, vec![None]));
    holder.batch_execute("COMMIT").await.unwrap();
    first.beat().await;
    assert!(!leads(&first), "the first scheduler received the request");
    assert_eq!(ends(&db.client().await).await, [Some("stepped_down".to_owned())]);
    second.beat().await;
    assert!(leads(&second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_whose_registration_is_gone_stands_down_and_registers_again() {
    let db = TestDatabase::new().await;
    let mut leader = scheduler(&db);
    leader.beat().await;
    let term = role(&leader).term();
    db.client().await.batch_execute("DELETE FROM scheduler_instances").await.unwrap();
    leader.beat().await;
    assert!(!leads(&leader));
    leader.beat().await;
    assert!(role(&leader).term() > term);
}
