//! Ticks: a fire time is dispatched once, after any failure.

use std::borrow::Cow;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::join_all;
use sched_model::dispatching::insert::{NewDispatch, Origin};
use sched_model::dispatching::tick::{self, Batch, CursorMove, DueJob, NewSkip, Written};
use sched_model::dispatching::trigger::Fate;
use sched_model::domain::ids::{DispatchId, JobId, Term};
use sched_model::domain::timetable::SkipReason;
use sched_model::jobs::{self, SaveMode, Writing};
use sched_model::{Conn, DbError, DbResult, transact};
use test_support::fixture::{Fixture, Leader, QUEUE, TENANT, settings};
use tokio::sync::Barrier;
use uuid::Uuid;

pub(crate) async fn make_due(world: &Fixture) {
    world.sql("UPDATE scheduled_jobs SET next_run_at = date_trunc('hour', now()) - interval '2 hours'").await;
}

pub(crate) async fn due(conn: &mut Conn, limit: i64) -> Vec<DueJob> {
    let now = sched_model::connection::database_clock::now(conn).await.unwrap();
    tick::lock_due(conn, now, limit).await.unwrap()
}

fn cursor_move(job: &DueJob, to: Option<DateTime<Utc>>) -> CursorMove {
    CursorMove {
        tenant_id: job.tenant_id,
        job_id: job.id,
        from: job.cursor,
        to,
        disable: None,
        tzdata_version: None,
        settled_until: Some(job.cursor),
        last_fire_at: None,
    }
}

/// The run of the job's next fire.
pub(crate) fn run_of(job: &DueJob) -> NewDispatch<'static> {
    NewDispatch {
        id: DispatchId(Uuid::now_v7()),
        tenant_id: job.tenant_id,
        job_id: job.id,
        scheduled_for: job.cursor,
        available_at: job.cursor,
        queue: job.queue.clone(),
        priority: job.priority,
        job_version: job.version,
        args: job.args.clone().map(Cow::Owned),
        is_catch_up: false,
        is_queued: false,
        origin: Origin::FIRE,
        follows: None,
        expires_at: None,
    }
}

fn batch(jobs: &[DueJob]) -> Batch {
    Batch {
        dispatches: jobs.iter().map(run_of).collect(),
        skips: Vec::new(),
        cursors: jobs.iter().map(|job| cursor_move(job, Some(job.cursor + TimeDelta::days(1)))).collect(),
        ..Batch::default()
    }
}

fn skip(job: &DueJob) -> NewSkip {
    NewSkip {
        tenant_id: job.tenant_id,
        job_id: job.id,
        first_fire_at: job.cursor - TimeDelta::hours(3),
        last_fire_at: job.cursor - TimeDelta::hours(1),
        fire_count: 3,
        is_count_exact: false,
        reason: SkipReason::Misfire,
        follows: None,
    }
}

async fn write(conn: &mut Conn, Leader { instance, term }: Leader, batch: &Batch) -> DbResult<Written> {
    transact(conn, "test_tick", async |conn: &mut Conn| {
        tick::fence(conn, instance, term).await?;
        tick::write(conn, instance, term, batch).await
    })
    .await
}

async fn counters(world: &Fixture, job: JobId) -> (i64, i64) {
    let counter = |column| format!("SELECT {column} FROM scheduled_jobs WHERE id = '{job}'");
    let active = world.number(&counter("active_dispatches")).await;
    (active, world.number(&counter("total_run_count")).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_written_once_and_refused_whole_the_second_time() {
    let world = Fixture::new().await;
    let leader = world.lead().await;
    let job = world.job("hourly").save().await;
    make_due(&world).await;
    let mut conn = world.conn().await;
    let jobs = due(&mut conn, 10).await;
    let batch = Batch { skips: jobs.iter().map(skip).collect(), ..batch(&jobs) };
    let written = write(&mut conn, leader, &batch).await.unwrap();
    assert_eq!(written, Written { dispatched: 1, already_dispatched: 0, skipped: 1, ..Written::default() });

    // Other ids and another skip: only the cursor can reject them.
    let mut again = Batch { skips: jobs.iter().map(skip).collect(), ..self::batch(&jobs) };
    again.dispatches[0].scheduled_for += TimeDelta::seconds(1);
    again.skips[0].first_fire_at -= TimeDelta::days(1);
    let error = write(&mut conn, leader, &again).await.unwrap_err();
    assert!(matches!(error, DbError::Corrupt { .. }), "{error:?}");
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 1);
    assert_eq!(world.number("SELECT count(*) FROM skipped_fires").await, 1);
    assert_eq!(counters(&world, job.id).await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_unique_key_holds_when_a_cursor_is_set_back() {
    let world = Fixture::new().await;
    let leader = world.lead().await;
    let job = world.job("hourly").save().await;
    make_due(&world).await;
    let mut conn = world.conn().await;
    let jobs = due(&mut conn, 10).await;
    write(&mut conn, leader, &batch(&jobs)).await.unwrap();

    make_due(&world).await;
    let jobs = due(&mut conn, 10).await;
    let written = write(&mut conn, leader, &batch(&jobs)).await.unwrap();
    assert_eq!(written, Written { dispatched: 0, already_dispatched: 1, skipped: 0, ..Written::default() });
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 1);
    assert_eq!(counters(&world, job.id).await, (1, 1));
    assert!(due(&mut conn, 10).await.is_empty(), "the cursor moved nevertheless");
}

#[tokio::test(flavor = "multi_thread")]
async fn skips_are_recorded_with_their_range_and_reason() {
    let world = Fixture::new().await;
    let leader = world.lead().await;
    world.job("hourly").save().await;
    make_due(&world).await;
    let mut conn = world.conn().await;
    let jobs = due(&mut conn, 10).await;
    let batch = Batch {
        dispatches: Vec::new(),
        skips: jobs.iter().map(skip).collect(),
        cursors: jobs.iter().map(|job| cursor_move(job, Some(job.cursor + TimeDelta::days(1)))).collect(),
        ..Batch::default()
    };
    let written = write(&mut conn, leader, &batch).await.unwrap();
    assert_eq!(written, Written { dispatched: 0, already_dispatched: 0, skipped: 1, ..Written::default() });
    let columns = "fire_count, is_count_exact, reason, term, last_fire_at - first_fire_at";
    let recorded = world.rows(&format!("SELECT {columns} FROM skipped_fires")).await;
    assert_eq!(recorded, [["3", "f", "misfire", &leader.term.0.to_string(), "02:00:00"]]);
    assert_eq!(counters(&world, jobs[0].id).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_schedule_is_broken_is_disabled_with_the_reason() {
    let world = Fixture::new().await;
    let leader = world.lead().await;
    world.job("hourly").save().await;
    make_due(&world).await;
    let mut conn = world.conn().await;
    let jobs = due(&mut conn, 10).await;
    let disable = CursorMove { disable: Some("no such zone".into()), ..cursor_move(&jobs[0], None) };
    let batch = Batch { cursors: vec![disable], ..Batch::default() };
    write(&mut conn, leader, &batch).await.unwrap();
    let columns = "is_enabled, disabled_reason, next_run_at";
    let job = world.rows(&format!("SELECT {columns} FROM scheduled_jobs")).await;
    assert_eq!(job, [["f", "no such zone", "-"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_term_writes_nothing() {
    let world = Fixture::new().await;
    let leader = world.lead().await;
    world.job("hourly").save().await;
    make_due(&world).await;
    let mut conn = world.conn().await;
    let jobs = due(&mut conn, 10).await;
    let error = write(&mut conn, Leader { term: Term(leader.term.0 - 1), ..leader }, &batch(&jobs))
        .await
        .unwrap_err();
    assert!(matches!(error, DbError::TermOver), "{error:?}");
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 0);
}

async fn many_due(world: &Fixture, count: usize) {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_save", async |conn: &mut Conn| {
        for number in 0..count {
            let settings = settings(&format!("job-{number}"));
            jobs::save(conn, TENANT, &settings, Writing::new(SaveMode::Create, "tests")).await.unwrap();
        }
        DbResult::Ok(())
    })
    .await
    .unwrap();
    make_due(world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_ticks_at_once_share_what_is_due() {
    let world = Fixture::new().await;
    let Leader { instance, term } = world.lead().await;
    many_due(&world, 100).await;
    let both_hold_their_locks = Barrier::new(2);
    let tick = async || {
        let mut conn = world.conn().await;
        transact(&mut conn, "test_tick", async |conn: &mut Conn| {
            let now = tick::fence(conn, instance, term).await?;
            let jobs = tick::lock_due(conn, now, 60).await?;
            both_hold_their_locks.wait().await;
            tick::write(conn, instance, term, &batch(&jobs)).await
        })
        .await
        .unwrap()
    };
    let (one, other) = tokio::join!(tick(), tick());
    assert_eq!(one.dispatched.max(other.dispatched), 60);
    assert_eq!(one.dispatched.min(other.dispatched), 40);
    assert_eq!((one.already_dispatched, other.already_dispatched), (0, 0));
    assert_eq!(world.number("SELECT count(DISTINCT job_id) FROM job_dispatch").await, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn racing_ticks_dispatch_each_job_once() {
    let world = Fixture::new().await;
    let Leader { instance, term } = world.lead().await;
    many_due(&world, 500).await;
    let race = async || {
        let mut conn = world.conn().await;
        let mut found = Vec::new();
        loop {
            let written = transact(&mut conn, "test_tick", async |conn: &mut Conn| {
                let now = tick::fence(conn, instance, term).await?;
                let jobs = tick::lock_due(conn, now, 37).await?;
                tick::write(conn, instance, term, &batch(&jobs)).await
            })
            .await
            .unwrap();
            if written == Written::default() {
                return found;
            }
            found.push(written);
        }
    };
    let written: Vec<Written> = join_all((0..4).map(|_| race())).await.into_iter().flatten().collect();
    assert_eq!(written.iter().map(|w| w.dispatched).sum::<usize>(), 500);
    assert!(written.iter().all(|w| w.already_dispatched == 0), "{written:?}");
    assert_eq!(world.number("SELECT count(DISTINCT job_id) FROM job_dispatch").await, 500);
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch").await, 500);
    let miscounted =
        "SELECT count(*) FROM scheduled_jobs WHERE (active_dispatches, total_run_count) <> (1, 1)";
    assert_eq!(world.number(miscounted).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_at_the_instant_of_a_fire_time_does_not_swallow_it() {
    let world = Fixture::new().await;
    let leader = world.lead().await;
    let job = world.job("hourly").save().await;
    make_due(&world).await;
    let mut conn = world.conn().await;
    let triggered = world.trigger(job.id, None).await;
    assert!(matches!(&triggered, Fate::Created(created) if created.queue == QUEUE), "{triggered:?}");
    world
        .sql(
            "UPDATE job_dispatch SET scheduled_for = j.next_run_at FROM scheduled_jobs j WHERE j.id = job_id",
        )
        .await;

    let jobs = due(&mut conn, 10).await;
    let written = write(&mut conn, leader, &batch(&jobs)).await.unwrap();
    assert_eq!(written, Written { dispatched: 1, already_dispatched: 0, skipped: 0, ..Written::default() });
    let instants = "SELECT count(*), count(DISTINCT scheduled_for) FROM job_dispatch";
    assert_eq!(world.rows(instants).await, [["2", "1"]]);
    assert_eq!(counters(&world, job.id).await, (2, 2));
}
