//! The event stream: no event is missed in its order, for any order of commits.

use std::collections::HashSet;
use std::time::Duration;

use sched_model::domain::ids::{JobId, TenantId};
use sched_model::events::append::{self, NewEvent};
use sched_model::events::stream::{self, EventFilter, EventKey, Mark, Span};
use sched_model::{Conn, DbError, transact};
use serde_json::json;
use test_support::fixture::{BEGIN, Fixture, PATIENCE, TENANT};
use test_support::wait_for;
use uuid::Uuid;

fn event(number: usize) -> NewEvent {
    NewEvent {
        tenant_id: Some(TENANT),
        project_id: None,
        job_id: None,
        dispatch_id: None,
        event_type: append::JOB_PAUSED,
        payload: json!({"number": number}),
    }
}

/// The transaction also takes a number.
const WRITE: &str = "INSERT INTO events (event_type) VALUES ('job_paused')";

/// The open transactions in the databases of other tests on the same server.
async fn elsewhere(conn: &mut Conn) -> Vec<i64> {
    let running = stream::running(conn).await.unwrap();
    running.iter().filter(|one| one.is_elsewhere).map(|one| one.transaction).collect()
}

fn mark(key: EventKey) -> Mark {
    Mark { key, at: chrono::DateTime::UNIX_EPOCH }
}

async fn types(conn: &mut Conn, after: EventKey) -> (Vec<String>, EventKey) {
    let ignored = elsewhere(conn).await;
    let look = stream::read(conn, mark(after), &ignored, 100).await.unwrap();
    let last = look.events.last().map_or(look.settled, |event| event.key).max(after);
    (look.events.into_iter().map(|event| event.event_type).collect(), last)
}

async fn wait_for_types(conn: &mut Conn, after: EventKey, expected: &[&str]) {
    wait_for("the events are settled", PATIENCE, async || {
        let seen = types(conn, after).await.0;
        if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn late_commit_is_not_missed() {
    let world = Fixture::new().await;
    let (slow, quick) = (world.db.client().await, world.db.client().await);
    let mut conn = world.conn().await;
    let start = stream::state(&mut conn, &[]).await.unwrap().settled;

    slow.batch_execute(&format!("{BEGIN}; INSERT INTO events (event_type) VALUES ('slow')")).await.unwrap();
    quick.batch_execute("INSERT INTO events (event_type) VALUES ('quick')").await.unwrap();
    let ids = world.rows("SELECT event_type, id FROM events").await;
    assert_eq!(ids.len(), 1, "the later id is committed, the earlier is not: {ids:?}");
    let (seen, position) = types(&mut conn, start).await;
    assert_eq!(seen, Vec::<String>::new(), "events after an open transaction wait for it");
    slow.batch_execute("COMMIT").await.unwrap();
    wait_for_types(&mut conn, position, &["slow", "quick"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_transaction_does_not_block_the_stream() {
    let world = Fixture::new().await;
    let (slow, quick) = (world.db.client().await, world.db.client().await);
    let mut conn = world.conn().await;
    let start = stream::state(&mut conn, &[]).await.unwrap().settled;
    slow.batch_execute(&format!("{BEGIN}; CREATE TABLE slow (); INSERT INTO slow DEFAULT VALUES"))
        .await
        .unwrap();
    quick.batch_execute(WRITE).await.unwrap();
    let number: i64 = slow.query_one("SELECT pg_current_xact_id()::text::bigint", &[]).await.unwrap().get(0);

    let running = stream::running(&mut conn).await.unwrap();
    let found = running.iter().find(|one| one.transaction == number).unwrap();
    assert!(found.is_found && !found.is_elsewhere && !found.has_events, "{found:?}");
    assert_eq!(types(&mut conn, start).await.0, Vec::<String>::new());
    wait_for("an ignored transaction is passed", PATIENCE, async || {
        let ignored = [elsewhere(&mut conn).await, vec![number]].concat();
        let look = stream::read(&mut conn, mark(start), &ignored, 10).await.unwrap();
        let is_seen = look.events.iter().any(|event| event.event_type == "job_paused");
        if is_seen { Ok(()) } else { Err(format!("{look:?}")) }
    })
    .await;

    slow.batch_execute(WRITE).await.unwrap();
    let running = stream::running(&mut conn).await.unwrap();
    assert!(running.iter().any(|one| one.transaction == number && one.has_events), "{running:?}");
    slow.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_other_databases_are_identified() {
    let (world, other) = (Fixture::new().await, Fixture::new().await);
    let theirs = other.db.client().await;
    theirs.batch_execute(&format!("{BEGIN}; {WRITE}")).await.unwrap();
    let number: i64 =
        theirs.query_one("SELECT pg_current_xact_id()::text::bigint", &[]).await.unwrap().get(0);
    // A transaction that began after all finished ones does not block the stream.
    world.sql(WRITE).await;
    let of = async |world: &Fixture| {
        let running = stream::running(&mut world.conn().await).await.unwrap();
        running.into_iter().find(|one| one.transaction == number).unwrap()
    };
    let (here, there) = (of(&world).await, of(&other).await);
    assert!(here.is_elsewhere && !here.has_events, "{here:?}");
    assert!(!there.is_elsewhere && there.has_events, "{there:?}");
    theirs.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn old_transaction_cannot_write_events() {
    let world = Fixture::new().await;
    let default = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef
                   WHERE adrelid = 'events'::regclass AND pg_get_expr(adbin, adrelid) LIKE '%pg_current_xact_id%'";
    let text = world.text(default).await;
    let seconds = stream::WRITES_WITHIN.as_secs() / 60;
    assert!(text.contains(&format!("'00:0{seconds}:00'::interval")), "{text}");
    // A shorter limit, to keep the test fast.
    let short = text.replace(&format!("'00:0{seconds}:00'"), "'00:00:00'");
    world.sql(&format!("ALTER TABLE events ALTER COLUMN transaction_id SET DEFAULT {short}")).await;
    let mut conn = world.conn().await;
    let written =
        transact(&mut conn, "write", async |conn: &mut Conn| append::append(conn, &[event(1)]).await).await;
    assert!(matches!(written, Err(DbError::Constraint { .. } | DbError::Other(_))), "{written:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_and_a_reader_agree_on_every_event() {
    const WRITERS: usize = 8;
    const EACH: usize = 60;
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let mut position = stream::state(&mut conn, &[]).await.unwrap().settled;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let mut conn = world.conn().await;
        writers.spawn(async move {
            for number in 0..EACH {
                transact(&mut conn, "write", async |conn: &mut Conn| {
                    append::append(conn, &[event(writer * EACH + number)]).await?;
                    // Various durations, so that the order of commits differs from that of begins.
                    tokio::time::sleep(Duration::from_millis(((writer * 7 + number * 3) % 11) as u64)).await;
                    append::append(conn, &[event(WRITERS * EACH + writer * EACH + number)]).await
                })
                .await
                .unwrap();
            }
        });
    }
    let mut seen = Vec::new();
    let total = 2 * WRITERS * EACH;
    wait_for("every event", PATIENCE * 2, async || {
        let ignored = elsewhere(&mut conn).await;
        let look = stream::read(&mut conn, mark(position), &ignored, 7).await.unwrap();
        position = match look.events.last() {
            Some(last) if look.events.len() == 7 => last.key,
            _ => look.settled.max(position),
        };
        seen.extend(look.events.iter().map(|event| (event.key, event.payload["number"].as_u64().unwrap())));
        if seen.len() >= total { Ok(()) } else { Err(format!("{} of {total}", seen.len())) }
    })
    .await;
    while let Some(ended) = writers.join_next().await {
        ended.unwrap();
    }
    assert!(seen.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
    let distinct: HashSet<u64> = seen.iter().map(|(_, number)| *number).collect();
    assert_eq!((seen.len(), distinct.len()), (total, total), "each once");
    assert_eq!(types(&mut conn, position).await.0, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_match_the_filter_in_both_directions() {
    let world = Fixture::new().await;
    let job = world.job("watched").save().await.id;
    let other = TenantId(Uuid::from_u128(7));
    world
        .sql(&format!("INSERT INTO tenants (id, slug, name) VALUES ('{}', 'other', 'Other')", other.0))
        .await;
    let mut conn = world.conn().await;
    world.sql("DELETE FROM events").await;
    for (number, tenant, of) in
        [(1, Some(TENANT), Some(job)), (2, Some(other), None), (3, None, None), (4, Some(TENANT), None)]
    {
        let new = NewEvent { tenant_id: tenant, job_id: of, ..event(number) };
        append::append(&mut conn, &[new]).await.unwrap();
    }
    let forward = Span::Forward { after: EventKey::default(), before: EventKey::LAST };
    let backward = Span::Backward { after: EventKey::default(), before: EventKey::LAST };
    let all = EventFilter::of(TENANT);
    let with_all = EventFilter { with_installation: true, ..all.clone() };
    let of_job = EventFilter { job: Some(job), ..all.clone() };
    let none = EventFilter { job: Some(JobId(Uuid::nil())), ..all.clone() };
    let rare = EventFilter { types: vec!["job_paused".into()], ..all.clone() };
    let common = EventFilter { types: vec![append::EXECUTION_STARTED.into()], ..all.clone() };
    for (filter, span, expected) in [
        (&all, forward, &[1, 4][..]),
        (&all, backward, &[4, 1]),
        (&with_all, forward, &[1, 3, 4]),
        (&EventFilter::of(other), forward, &[2]),
        (&of_job, forward, &[1]),
        (&none, forward, &[]),
        (&rare, backward, &[4, 1]),
        (&common, backward, &[]),
    ] {
        let page = stream::page(&mut conn, filter, span, 10).await.unwrap();
        let numbers: Vec<u64> = page.iter().map(|event| event.payload["number"].as_u64().unwrap()).collect();
        assert_eq!(numbers, expected, "{filter:?}");
        assert!(page.iter().all(|event| filter.matches(event)));
    }
    let first = stream::page(&mut conn, &with_all, forward, 1).await.unwrap().pop().unwrap();
    let rest = Span::Forward { after: first.key, before: EventKey::LAST };
    assert_eq!(stream::page(&mut conn, &with_all, rest, 10).await.unwrap().len(), 2);
    let before = Span::Backward { after: EventKey::default(), before: first.key };
    assert_eq!(stream::page(&mut conn, &with_all, before, 10).await.unwrap().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_events_precede_new_events() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    world.sql("DELETE FROM events").await;
    world
        .sql(&format!(
            "INSERT INTO events (tenant_id, event_type, payload, transaction_id)
             SELECT '{TENANT}', 'restored', jsonb_build_object('n', n), (pg_current_xact_id()::text::bigint + 1000000000 + n)::text::xid8 FROM generate_series(1, 3) AS n;
             INSERT INTO events (tenant_id, event_type) VALUES ('{TENANT}', 'new')"
        ))
        .await;
    // The server could still reach these numbers: no event is returned until they are settled.
    let look = stream::read(&mut conn, mark(EventKey::default()), &[], 10).await.unwrap();
    assert!(look.has_foreign && look.events.is_empty(), "{look:?}");
    assert_eq!(stream::settle_foreign(&mut conn, 2).await.unwrap(), 2);
    let left = "SELECT payload ->> 'n' FROM events WHERE event_type = 'restored' AND transaction_id > '0'";
    assert_eq!(world.text(left).await, "3", "the earliest positions are settled first");
    assert_eq!(stream::settle_foreign(&mut conn, 2).await.unwrap(), 1);
    assert_eq!(stream::settle_foreign(&mut conn, 2).await.unwrap(), 0);
    wait_for_types(&mut conn, EventKey::default(), &["restored", "restored", "restored", "new"]).await;
    let now = sched_model::connection::database_clock::now(&conn).await.unwrap();
    let recent = stream::position_at(&mut conn, TENANT, now - chrono::TimeDelta::minutes(5)).await.unwrap();
    assert_eq!(recent.key, EventKey::default(), "an instant is found among them too");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_is_found_in_the_stream() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    world.sql("DELETE FROM events").await;
    assert_eq!(
        stream::position_at(&mut conn, TENANT, chrono::DateTime::UNIX_EPOCH).await.unwrap().key,
        EventKey::default()
    );
    assert_eq!(
        stream::position_after(&mut conn, TENANT, chrono::DateTime::UNIX_EPOCH).await.unwrap(),
        EventKey::LAST
    );
    // One transaction per minute of the last two days.
    world
        .sql(&format!(
            "INSERT INTO events (tenant_id, event_type, created_at, transaction_id)
             SELECT '{TENANT}', 'job_paused', date_trunc('minute', now()) - (2880 - m) * interval '1 minute', (m * 3 + 1000)::text::xid8
             FROM generate_series(1, 2880) AS m"
        ))
        .await;
    let now = sched_model::connection::database_clock::now(&conn).await.unwrap();
    for minutes in [1, 2, 3, 17, 600, 1439, 2870, 2879, 5000] {
        let since = now - chrono::TimeDelta::minutes(minutes);
        let after = stream::position_at(&mut conn, TENANT, since).await.unwrap().key;
        let filter = EventFilter::of(TENANT);
        let span = Span::Forward { after, before: EventKey::LAST };
        let found = stream::page(&mut conn, &filter, span, 5000).await.unwrap();
        let early = found.iter().filter(|event| event.at < since).count();
        let (wanted, since_then) = (usize::try_from(minutes.min(2880)).unwrap(), found.len() - early);
        assert!((wanted - 1..=wanted).contains(&since_then), "{minutes}: {} - {early}", found.len());
        assert!(early <= 3, "{minutes}: begins {early} events too early");

        let before = stream::position_after(&mut conn, TENANT, since).await.unwrap();
        let span = Span::Backward { after: EventKey::default(), before };
        let found = stream::page(&mut conn, &filter, span, 5000).await.unwrap();
        let late = found.iter().filter(|event| event.at >= since).count();
        assert_eq!(found.len() - late + since_then, 2880, "{minutes}");
        assert!(late <= 3, "{minutes}: ends {late} events too late");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reader_checks_its_last_event() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    world.sql("DELETE FROM events").await;
    assert_eq!(stream::newest(&mut conn, EventKey::LAST).await.unwrap(), None);
    for number in 0..2 {
        append::append(&mut conn, &[event(number)]).await.unwrap();
    }
    let last = stream::newest(&mut conn, EventKey::LAST).await.unwrap().unwrap();
    let first = stream::newest(&mut conn, last.key).await.unwrap().unwrap();
    assert!(first.key < last.key && first.at <= last.at);
    assert!(stream::read(&mut conn, last, &[], 10).await.unwrap().is_there);
    assert!(stream::origin(&mut conn, last).await.unwrap().is_there);
    assert!(stream::state(&mut conn, &[]).await.unwrap().is_there, "the end is no event");
    // A crash loses the transactions, and another one gets the number.
    world.sql("UPDATE events SET created_at = created_at + interval '1 ms' WHERE id = (SELECT max(id) FROM events)").await;
    assert!(!stream::read(&mut conn, last, &[], 10).await.unwrap().is_there);
    assert!(!stream::origin(&mut conn, last).await.unwrap().is_there);
    assert!(stream::origin(&mut conn, first).await.unwrap().is_there);
}
