//! Starts and ends of attempts: one row for each claim and completion, read as single events.

use std::time::Duration;

use sched_model::Conn;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::JobId;
use sched_model::events::append::{EXECUTION_COMPLETED, EXECUTION_STARTED};
use sched_model::events::stream::{self, Event, EventFilter, EventKey, Mark, Span};
use sched_model::running::attempts;
use sched_model::running::claims::Claimed;
use test_support::fixture::{Fixture, PATIENCE, TENANT, ended};
use test_support::wait_for;

const ALL: Span = Span::Forward { after: EventKey { transaction: 0, id: 0 }, before: EventKey::LAST };

/// Three runs of two jobs, claimed at once, and one run of the first job, claimed later.
async fn claimed() -> (Fixture, JobId, Vec<Claimed>) {
    let world = Fixture::new().await;
    let (first, other) = (world.job("first").save().await.id, world.job("other").save().await.id);
    world.runs(first).count(2).insert().await;
    world.runs(other).insert().await;
    let worker = world.worker().await;
    world.sql("DELETE FROM events").await;
    let mut claimed = world.claim(worker, 10).await;
    world.runs(first).insert().await;
    claimed.extend(world.claim(worker, 10).await);
    assert_eq!(claimed.len(), 4);
    let sizes = "SELECT size, job_id IS NOT NULL FROM run_start_batches ORDER BY id";
    assert_eq!(world.rows(sizes).await, [["3", "f"], ["1", "t"]]);
    (world, first, claimed)
}

async fn page(world: &Fixture, filter: &EventFilter, span: Span, limit: i64) -> Vec<Event> {
    let found = stream::page(&mut world.conn().await, filter, span, limit).await.unwrap();
    assert!(found.iter().all(|event| filter.matches(event)), "{filter:?}: {found:?}");
    found
}

/// The whole stream, read in sections of `limit`.
async fn read(conn: &mut Conn, limit: i64) -> Vec<Event> {
    let mut mark = Mark::beginning(chrono::DateTime::UNIX_EPOCH);
    let mut all: Vec<Event> = Vec::new();
    loop {
        let running = stream::running(conn).await.unwrap();
        let ignored: Vec<i64> =
            running.iter().filter(|one| one.is_elsewhere).map(|one| one.transaction).collect();
        let section = stream::read(conn, mark, &ignored, limit).await.unwrap();
        assert!(section.is_there, "{mark:?} is the position of an event");
        assert!(section.events.len() <= usize::try_from(limit).unwrap());
        let Some(last) = section.events.last() else { return all };
        mark = Mark { key: last.key, at: last.at };
        all.extend(section.events);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn section_may_end_within_a_batch() {
    let (world, _, claimed) = claimed().await;
    let ends: Vec<_> = claimed.iter().map(|one| ended(one, AttemptOutcome::Completed).build()).collect();
    world.end(&ends, &[]).await;
    let mut conn = world.conn().await;
    wait_for("all events are settled", PATIENCE, async || {
        match read(&mut world.conn().await, 100).await.len() {
            8 => Ok(()),
            settled => Err(format!("{settled} of 8")),
        }
    })
    .await;
    let whole = read(&mut conn, 100).await;
    for limit in 1..=5 {
        assert_eq!(read(&mut conn, limit).await, whole, "in sections of {limit}");
    }
    assert!(whole.is_sorted_by_key(|event| event.key));
    let (starts, ends) = whole.split_at(4);
    assert!(
        starts.iter().all(|event| event.event_type == EXECUTION_STARTED && event.payload["attempt"] == 1)
    );
    assert!(ends.iter().all(|event| event.payload["dispatch_status"] == "COMPLETED"));
    for event in &whole {
        let mark = Mark { key: event.key, at: event.at };
        assert!(stream::origin(&mut conn, mark).await.unwrap().is_there, "{mark:?}");
        let only = page(&world, &EventFilter::of(TENANT), EventFilter::only(event.key), 10).await;
        assert_eq!(only, std::slice::from_ref(event), "one event of its batch");
    }
    for pair in whole.windows(2) {
        let before = stream::newest(&mut conn, pair[1].key).await.unwrap().unwrap();
        assert_eq!(before, Mark { key: pair[0].key, at: pair[0].at });
    }
    let last = whole.last().unwrap();
    let missing = Mark { key: EventKey { id: last.key.id + 1, ..last.key }, at: last.at };
    assert!(!stream::origin(&mut conn, missing).await.unwrap().is_there, "behind the end of the batch");
}

#[tokio::test(flavor = "multi_thread")]
async fn page_finds_a_job_in_its_own_and_in_mixed_batches() {
    let (world, first, claimed) = claimed().await;
    let of_tenant = EventFilter::of(TENANT);
    let of_job = EventFilter { job: Some(first), ..of_tenant.clone() };
    let starts = page(&world, &of_job, ALL, 10).await;
    assert_eq!(starts.len(), 3);
    for (index, start) in starts.iter().enumerate() {
        let after = Span::Forward { after: start.key, before: EventKey::LAST };
        assert_eq!(page(&world, &of_job, after, 10).await, starts[index + 1..]);
        let before = Span::Backward { after: EventKey::default(), before: start.key };
        let newest_first: Vec<Event> = starts[..index].iter().rev().cloned().collect();
        assert_eq!(page(&world, &of_job, before, 10).await, newest_first);
        assert_eq!(page(&world, &of_job, before, 1).await, newest_first[..index.min(1)]);
    }
    let run = claimed[1].dispatch_id;
    let of_run = EventFilter { dispatch: Some(run), ..of_tenant.clone() };
    assert_eq!(page(&world, &of_run, ALL, 10).await.len(), 1);
    world.finish(&claimed[1], AttemptOutcome::Failed).await;
    let states: Vec<_> =
        page(&world, &of_run, ALL, 10).await.into_iter().map(|event| event.event_type).collect();
    assert_eq!(states, [EXECUTION_STARTED, EXECUTION_COMPLETED]);
    for (types, expected) in
        [(vec![EXECUTION_STARTED], 4), (vec![EXECUTION_COMPLETED], 1), (vec!["job_paused"], 0)]
    {
        let types = types.into_iter().map(str::to_owned).collect();
        let filter = EventFilter { types, ..of_tenant.clone() };
        assert_eq!(page(&world, &filter, ALL, 10).await.len(), expected, "{filter:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_and_released_attempts_have_no_end_event() {
    let (world, _, claimed) = claimed().await;
    let ends = [
        ended(&claimed[0], AttemptOutcome::Lost).retry_after(Duration::ZERO).build(),
        ended(&claimed[1], AttemptOutcome::Released).retry_after(Duration::ZERO).build(),
        ended(&claimed[2], AttemptOutcome::Failed).retry_after(Duration::from_secs(60)).build(),
        ended(&claimed[3], AttemptOutcome::Timeout).max_attempts(1).build(),
    ];
    world.end(&ends, &[]).await;
    let shown = "SELECT payload ->> 'status', payload ->> 'dispatch_status', payload ->> 'error_class', payload ->> 'error'
                 FROM run_end_events ORDER BY transaction_id, id";
    let mut shown = world.rows(shown).await;
    shown.sort();
    assert_eq!(
        shown,
        [["FAILED", "PENDING", "exit_code", "it FAILED"], ["TIMEOUT", "TIMEOUT", "exit_code", "it TIMEOUT"]]
    );
    assert_eq!(world.number("SELECT sum(size) FROM run_end_batches").await, 4, "all are counted");

    world.skip_waits().await;
    let worker = world.worker().await;
    let mut again = world.claim(worker, 10).await.into_iter();
    let again = again.find(|one| one.dispatch_id == claimed[2].dispatch_id).unwrap();
    world.end(&[ended(&again, AttemptOutcome::Failed).max_attempts(2).build()], &[]).await;
    let of_run = EventFilter { dispatch: Some(again.dispatch_id), ..EventFilter::of(TENANT) };
    let types: Vec<_> =
        page(&world, &of_run, ALL, 10).await.into_iter().map(|event| event.event_type).collect();
    let [start, end] = [EXECUTION_STARTED, EXECUTION_COMPLETED];
    assert_eq!(types, [start, end, start, end, "dispatch_dead_letter"], "the letter follows its end");
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_a_dump_are_settled_before_new_events() {
    let (world, ..) = claimed().await;
    world.sql("UPDATE run_start_batches SET transaction_id = '9000000000000000000'").await;
    let mut conn = world.conn().await;
    let state = stream::state(&mut conn, &[]).await.unwrap();
    assert!(state.has_foreign);
    assert_eq!(stream::settle_foreign(&mut conn, 10).await.unwrap(), 2, "a batch is one of them");
    assert!(!stream::state(&mut conn, &[]).await.unwrap().has_foreign);
    assert_eq!(page(&world, &EventFilter::of(TENANT), ALL, 10).await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn settled_ends_of_a_dump_are_counted() {
    let (world, _, claimed) = claimed().await;
    let ends: Vec<_> = claimed.iter().map(|one| ended(one, AttemptOutcome::Completed).build()).collect();
    assert_eq!(attempts::end(&mut world.conn().await, &ends, &[]).await.unwrap().len(), 4);
    world
        .sql(
            "UPDATE run_end_batches SET transaction_id = '9000000000000000000';
             UPDATE uncounted_ends SET transaction_id = '9000000000000000000'",
        )
        .await;
    stream::settle_foreign(&mut world.conn().await, 10).await.unwrap();
    world.count_ends().await;
    world.assert_counters_are_true().await;
}
