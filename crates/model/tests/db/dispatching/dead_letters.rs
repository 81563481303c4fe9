//! Dead letters and their retries: once, with the failed run's data.

use sched_model::dispatching::retries::{self, JobBar, Retried, Retry, RetryOrder};
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::ids::{DispatchId, TenantId};
use sched_model::domain::job::OverlapPolicy;
use sched_model::domain::retention::Retention;
use sched_model::domain::run_state::{DispatchStatus, Settlement};
use sched_model::retention::retain;
use sched_model::running::dead_letters::{self, DiscardOrder, Discarded, Filter, Settled, State};
use sched_model::{Conn, transact};
use test_support::fixture::{Fixture, QUEUE, TENANT, ended};
use uuid::Uuid;

use crate::dispatching::commands::{cancel, the_dispatch};

const ORDER: RetryOrder<'static> = RetryOrder { tenant: TENANT, by: "tests", traceparent: None };

async fn retry_as(world: &Fixture, tenant: TenantId, id: DispatchId) -> Retried {
    let order = RetryOrder { tenant, ..ORDER };
    let mut conn = world.conn().await;
    transact(&mut conn, "test_retry", async |conn: &mut Conn| retries::retry(conn, &order, id).await)
        .await
        .unwrap()
}

async fn retry(world: &Fixture, id: DispatchId) -> Retried {
    retry_as(world, TENANT, id).await
}

fn created(retried: Retried) -> Retry {
    let Retried::Created(made, _) = retried else { panic!("{retried:?}") };
    made
}

async fn retry_page(world: &Fixture, filter: &Filter, limit: i64) -> Settled<Retry> {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_retry", async |conn: &mut Conn| {
        dead_letters::retry_page(conn, &ORDER, filter, limit).await
    })
    .await
    .unwrap()
}

async fn discard(world: &Fixture, id: DispatchId) -> Discarded {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_discard", async |conn: &mut Conn| {
        let order = DiscardOrder { tenant: TENANT, by: "tests", reason: Some("known") };
        dead_letters::discard(conn, &order, id).await
    })
    .await
    .unwrap()
}

async fn open(world: &Fixture, filter: &Filter) -> Vec<DispatchId> {
    let mut conn = world.conn().await;
    let listed = dead_letters::list(&mut conn, TENANT, filter, 1_000).await.unwrap();
    let counted = dead_letters::count(&mut conn, TENANT, filter).await.unwrap();
    assert_eq!(usize::try_from(counted).unwrap(), listed.len());
    listed.into_iter().map(|letter| letter.row.dispatch_id).collect()
}

async fn dead(world: &Fixture, name: &str, count: i64) -> Vec<DispatchId> {
    let job = world.job(name).save().await;
    world.runs(job.id).count(count).insert().await;
    let worker = world.worker().await;
    let claimed = world.claim(worker, u32::try_from(count).unwrap()).await;
    let batch: Vec<_> = claimed
        .iter()
        .map(|one| {
            let mut ended = ended(one, AttemptOutcome::Failed).max_attempts(2).build();
            ended.verdict.event = sched_model::domain::run_state::DispatchEvent::GiveUp;
            ended.verdict.wait = None;
            ended
        })
        .collect();
    let mut ids = world.end(&batch, &[]).await;
    assert_eq!(ids.len(), claimed.len());
    ids.sort();
    ids.reverse();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_by_filter() {
    let world = Fixture::new().await;
    let ids = dead(&world, "hourly", 3).await;
    let others = dead(&world, "other", 1).await;
    let job = world.text("SELECT id FROM scheduled_jobs WHERE name = 'hourly'").await;
    let of_job =
        Filter { job: Some(sched_model::domain::ids::JobId(job.parse().unwrap())), ..Filter::default() };
    assert_eq!(open(&world, &of_job).await, ids);
    assert_eq!(open(&world, &Filter { after: Some(ids[0]), ..of_job.clone() }).await, ids[1..]);
    let oldest_first = Filter { oldest_first: true, ..of_job.clone() };
    assert_eq!(open(&world, &oldest_first).await, [ids[2], ids[1], ids[0]]);
    assert_eq!(open(&world, &Filter { after: Some(ids[1]), ..oldest_first }).await, [ids[0]]);
    let now = sched_model::connection::database_clock::now(&world.conn().await).await.unwrap();
    let project = world.text("SELECT id FROM projects").await.parse().unwrap();
    let project = Some(sched_model::domain::ids::ProjectId(project));
    for (filter, expected) in [
        (Filter::default(), 4),
        (Filter { queue: Some(QUEUE.into()), ..Filter::default() }, 4),
        (Filter { queue: Some("other".into()), ..Filter::default() }, 0),
        (Filter { error_class: Some("exit_code".into()), ..Filter::default() }, 4),
        (Filter { error_class: Some("oom".into()), ..Filter::default() }, 0),
        (Filter { project, ..Filter::default() }, 4),
        (Filter { until: Some(now), ..Filter::default() }, 4),
        (Filter { since: Some(now), ..Filter::default() }, 0),
        (Filter { state: State::Settled(Settlement::Discarded), ..Filter::default() }, 0),
        (Filter { state: State::Any, ..Filter::default() }, 4),
    ] {
        assert_eq!(open(&world, &filter).await.len(), expected, "{filter:?}");
    }
    let mut conn = world.conn().await;
    let letter = dead_letters::by_id(&mut conn, TENANT, others[0]).await.unwrap().unwrap();
    assert_eq!((letter.job_name.as_str(), letter.dispatch.attempt), ("other", 1));
    assert_eq!(letter.dispatch.error_message.as_deref(), Some("it FAILED"));
    let foreign = TenantId(Uuid::new_v4());
    assert!(dead_letters::by_id(&mut conn, foreign, others[0]).await.unwrap().is_none());
    assert!(dead_letters::list(&mut conn, foreign, &Filter::default(), 10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letter_is_retried_once() {
    let world = Fixture::new().await;
    let id = dead(&world, "hourly", 1).await[0];
    let made = created(retry(&world, id).await);
    world.sql(&format!("DELETE FROM job_dispatch WHERE id = '{}'", made.dispatch_id)).await;
    assert_eq!(retry(&world, id).await, Retried::Duplicate(made.dispatch_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_creates_a_run_with_the_same_data() {
    let world = Fixture::new().await;
    let id = dead(&world, "hourly", 1).await[0];
    world.sql("UPDATE job_dispatch SET args = '{\"day\": 7}'; UPDATE scheduled_jobs SET priority = 3").await;
    let made = created(retry(&world, id).await);
    assert_eq!((made.of, made.queue.as_str()), (id, QUEUE));
    assert_eq!(
        retry(&world, id).await,
        Retried::Duplicate(made.dispatch_id),
        "a repeated retry creates no second run"
    );
    let again = format!(
        "SELECT r.status, r.triggered_by, r.triggered_by_user, r.args, r.priority, r.attempt, r.scheduled_for = d.scheduled_for,
                r.retry_of = d.id, d.status
         FROM job_dispatch r, job_dispatch d WHERE r.id = '{}' AND d.id = '{id}'",
        made.dispatch_id
    );
    let expected = ["PENDING", "retry", "tests", r#"{"day": 7}"#, "3", "0", "t", "t", "DEAD_LETTER"];
    assert_eq!(world.rows(&again).await, [expected]);
    let settled = "SELECT settled_as, settled_by, retried_as::text FROM dead_letters";
    assert_eq!(world.rows(settled).await, [["retried", "tests", &made.dispatch_id.to_string()]]);
    assert!(open(&world, &Filter::default()).await.is_empty());
    assert_eq!(discard(&world, id).await, Discarded::Retried(made.dispatch_id));
    let worker = world.worker().await;
    let claimed = world.claim(worker, 1).await.pop().unwrap();
    world.finish(&claimed, AttemptOutcome::Failed).await;
    let next = self::created(retry(&world, made.dispatch_id).await);
    assert_ne!(next.dispatch_id, made.dispatch_id, "one that failed again is retried in turn");
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_unsuccessful_finished_runs_are_retried() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let id = claimed.dispatch_id;
    assert_eq!(retry(&world, id).await, Retried::NotFinished(DispatchStatus::InProgress));
    assert_eq!(retry_as(&world, TenantId(Uuid::new_v4()), id).await, Retried::NoSuchDispatch);
    assert_eq!(retry(&world, DispatchId(Uuid::new_v4())).await, Retried::NoSuchDispatch);
    world.finish(&claimed, AttemptOutcome::Completed).await;
    assert_eq!(retry(&world, id).await, Retried::Succeeded);
    for status in ["FAILED", "TIMEOUT", "CANCELLED", "DEAD_LETTER"] {
        let job = world.job(&status.to_lowercase().replace('_', "-")).save().await;
        world.runs(job.id).insert().await;
        let of_job = format!("job_id = '{}'", job.id);
        let id = world.text(&format!("SELECT id FROM job_dispatch WHERE {of_job}")).await;
        world
            .sql(&format!(
                "UPDATE job_dispatch SET status = '{status}', claimable_at = NULL, completed_at = now() WHERE {of_job};
                 UPDATE scheduled_jobs SET active_dispatches = 0 WHERE id = '{}'",
                job.id
            ))
            .await;
        let id = DispatchId(id.parse().unwrap());
        for (change, bar) in [
            ("is_enabled = false", JobBar::Disabled),
            ("is_enabled = true, deleted_at = now()", JobBar::Deleted),
        ] {
            world
                .sql(&format!(
                    "UPDATE scheduled_jobs SET {change}, next_run_at = NULL WHERE id = '{}'",
                    job.id
                ))
                .await;
            let Retried::Barred(found, _) = retry(&world, id).await else { panic!("{status} {change}") };
            assert_eq!(found, bar);
        }
        world
            .sql("UPDATE scheduled_jobs SET deleted_at = NULL; UPDATE task_functions SET is_active = false")
            .await;
        let Retried::Barred(found, _) = retry(&world, id).await else { panic!("{status}") };
        assert_eq!(found, JobBar::FunctionInactive);
        world.sql("UPDATE task_functions SET is_active = true").await;
        created(retry(&world, id).await);
    }
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retried_run_is_queued_like_any_run() {
    let world = Fixture::new().await;
    let job = world.job("line").overlap(OverlapPolicy::Queue).save().await.id;
    world.runs(job).insert().await;
    let first = the_dispatch(&world).await;
    cancel(&world, first).await;
    let second = created(retry(&world, first).await).dispatch_id;
    cancel(&world, second).await;
    let blocked = created(retry(&world, second).await).dispatch_id;
    world.runs(job).insert().await;
    cancel(&world, blocked).await;
    let third = created(retry(&world, blocked).await).dispatch_id;
    let line = "SELECT id FROM job_dispatch WHERE claimable_at = 'infinity'";
    assert_eq!(world.text(line).await, third.to_string());
    assert_eq!(
        world.rows("SELECT active_dispatches, queued_dispatches FROM scheduled_jobs").await,
        [["2", "1"]]
    );
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bulk_retry_works_by_page_and_counts_barred() {
    let world = Fixture::new().await;
    let ids = dead(&world, "hourly", 5).await;
    let barred = dead(&world, "off", 2).await;
    world.sql("UPDATE scheduled_jobs SET is_enabled = false, next_run_at = NULL WHERE name = 'off'").await;
    let mut filter = Filter::default();
    let (mut done, mut refused, mut pages) = (Vec::new(), 0, 0);
    loop {
        let page = retry_page(&world, &filter, 3).await;
        done.extend(page.done.iter().map(|retry| retry.of));
        refused += page.barred.get(&JobBar::Disabled).copied().unwrap_or_default();
        pages += 1;
        match page.next {
            Some(next) => filter.after = Some(next),
            None => break,
        }
    }
    done.sort();
    done.reverse();
    assert_eq!((done, refused, pages), (ids, 2, 3));
    assert_eq!(open(&world, &Filter::default()).await, barred, "rejected dead letters stay open");
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE triggered_by = 'retry'").await, 5);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_retries_run_each_dead_letter_once() {
    let world = Fixture::new().await;
    let ids = dead(&world, "hourly", 40).await;
    let filter = Filter::default();
    let (one, other, single, discarded) = tokio::join!(
        retry_page(&world, &filter, 100),
        retry_page(&world, &filter, 100),
        retry(&world, ids[7]),
        discard(&world, ids[9]),
    );
    assert!(matches!(single, Retried::Created(..) | Retried::Duplicate(_)), "{single:?}");
    let by_one = usize::from(matches!(single, Retried::Created(..)));
    let not_run = usize::from(matches!(discarded, Discarded::Done { .. }));
    assert_eq!(one.done.len() + other.done.len() + by_one, 40 - not_run);
    let twice = "SELECT count(*) - count(DISTINCT retry_of) FROM job_dispatch WHERE triggered_by = 'retry'";
    assert_eq!(world.number(twice).await, 0);
    world.assert_counters_are_true().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn discarded_dead_letter_stays_and_can_be_retried() {
    let world = Fixture::new().await;
    let ids = dead(&world, "hourly", 2).await;
    assert!(matches!(discard(&world, ids[0]).await, Discarded::Done { .. }));
    assert_eq!(discard(&world, ids[0]).await, Discarded::Already);
    assert_eq!(discard(&world, DispatchId(Uuid::new_v4())).await, Discarded::NoSuchDeadLetter);
    assert_eq!(open(&world, &Filter::default()).await, ids[1..]);
    let discarded = Filter { state: State::Settled(Settlement::Discarded), ..Filter::default() };
    assert_eq!(open(&world, &discarded).await, ids[..1]);
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'DEAD_LETTER'").await, 2);
    let page = transact(&mut world.conn().await, "test_discard", async |conn: &mut Conn| {
        let order = DiscardOrder { tenant: TENANT, by: "tests", reason: None };
        dead_letters::discard_page(conn, &order, &Filter::default(), 10).await
    })
    .await
    .unwrap();
    assert_eq!(page.done.iter().map(|done| done.0).collect::<Vec<_>>(), ids[1..]);
    assert!(open(&world, &Filter::default()).await.is_empty());
    created(retry(&world, ids[0]).await);
    assert_eq!(open(&world, &discarded).await, ids[1..], "the retry replaces the discard");
}

async fn grow_old(world: &Fixture) {
    world
        .sql(
            "UPDATE job_dispatch SET id = (lpad(to_hex((extract(epoch FROM now() - interval '200 days') * 1000)::bigint), 12, '0')
                                           || '7' || substr(md5(id::text), 1, 3) || '8' || substr(md5(id::text), 4, 15))::uuid,
                 completed_at = now() - interval '200 days'
             WHERE completed_at IS NOT NULL;
             UPDATE dead_letters SET dispatch_id = (SELECT id FROM job_dispatch d WHERE d.status = 'DEAD_LETTER')",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_and_retry_of_dead_letter_exclude_each_other() {
    let retention = Retention { finished_days: 30, dead_letter_days: 90, audit_days: 365 };
    for _ in 0..5 {
        let world = Fixture::new().await;
        dead(&world, "hourly", 1).await;
        grow_old(&world).await;
        let id = the_dispatch(&world).await;
        let now = sched_model::connection::database_clock::now(&world.conn().await).await.unwrap();
        let cutoffs = retention.cutoffs(now);
        let mut conn = world.conn().await;
        let (removed, retried) =
            tokio::join!(retain::dispatches(&mut conn, &cutoffs, Uuid::nil(), 100), retry(&world, id));
        removed.unwrap();
        let retries = world.number("SELECT count(*) FROM job_dispatch WHERE triggered_by = 'retry'").await;
        match retried {
            Retried::Created(..) => assert_eq!(retries, 1),
            Retried::NoSuchDispatch => assert_eq!(retries, 0),
            other => panic!("{other:?}"),
        }
        retain::dispatches(&mut conn, &cutoffs, Uuid::nil(), 100).await.unwrap();
        assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'DEAD_LETTER'").await, 0);
        assert_eq!(world.number("SELECT count(*) FROM dead_letters").await, 0);
        world.assert_counters_are_true().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_attempt_has_start_and_end_events() {
    let world = Fixture::new().await;
    let claimed = world.running("hourly").await;
    let events = "SELECT event_type, dispatch_id IS NOT NULL, job_id IS NOT NULL, project_id IS NOT NULL, payload->>'attempt',
                         coalesce((payload->>'worker_id')::uuid = (SELECT worker_id FROM worker_registration), false)
                  FROM event_stream WHERE event_type LIKE 'schedule_execution%' ORDER BY id";
    let begun = ["schedule_execution_started", "t", "t", "t", "1", "t"];
    assert_eq!(world.rows(events).await, [begun]);
    world.finish(&claimed, AttemptOutcome::Completed).await;
    assert_eq!(world.rows(events).await, [begun, ["schedule_execution_completed", "t", "t", "t", "1", "f"]]);
}
