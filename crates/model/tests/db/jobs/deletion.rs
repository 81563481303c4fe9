//! Deleting and restoring jobs.

use sched_model::dispatching::cancellations::Order;
use sched_model::domain::dependency::{After, AfterCondition};
use sched_model::domain::ids::JobId;
use sched_model::domain::job::JobSettings;
use sched_model::jobs::{
    self, DeleteRequest, Deleted, Job, RestoreRequest, Restored, SaveError, SaveMode, Writing,
};
use sched_model::{Conn, DbResult, PageRequest, transact};
use test_support::fixture::{BEGIN, Fixture, TENANT, settings};
use uuid::Uuid;

use crate::explain::ledger::{Books, Fate};

async fn delete(world: &Fixture, job: JobId, version: Option<i64>) -> Deleted {
    let order = Order { by: "ada", reason: None };
    let request = DeleteRequest { tenant: TENANT, job, version, source: "ada", order };
    let mut conn = world.conn().await;
    transact(&mut conn, "test_delete", async |conn: &mut Conn| jobs::delete(conn, &request).await)
        .await
        .unwrap()
}

async fn restore(world: &Fixture, job: JobId, name: Option<&str>) -> Result<Restored, SaveError> {
    let request = RestoreRequest { tenant: TENANT, job, name, version: None, source: "bob" };
    let mut conn = world.conn().await;
    transact(&mut conn, "test_restore", async |conn: &mut Conn| jobs::restore(conn, &request).await).await
}

#[track_caller]
fn done(deleted: Deleted) -> Job {
    match deleted {
        Deleted::Done { after, .. } => *after,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn restored(restored: Result<Restored, SaveError>) -> Job {
    match restored {
        Ok(Restored::Done { after, .. }) => *after,
        other => panic!("{other:?}"),
    }
}

async fn live(world: &Fixture, name: &str) -> DbResult<Option<Job>> {
    jobs::by_name(&world.conn().await, TENANT, name).await
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_and_restore_keep_the_job_and_add_versions() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    let gone = done(delete(&world, id, Some(1)).await);
    assert!(gone.state.deleted_at.is_some() && gone.state.next_run_at.is_none());
    assert!(live(&world, "a").await.unwrap().is_none());
    assert!(matches!(delete(&world, id, None).await, Deleted::NoSuchJob));
    let back = restored(restore(&world, id, None).await);
    assert_eq!((&back.settings, back.state.deleted_at), (&settings("a"), None));
    assert!(back.state.next_run_at.is_some(), "it fires again");
    assert!(matches!(restore(&world, id, None).await, Ok(Restored::Unchanged(_))));
    let versions = "SELECT version, change, changed_src FROM scheduled_job_versions ORDER BY version";
    let expected = ["1 created tests", "2 deleted ada", "3 restored bob"];
    assert_eq!(world.rows(versions).await.into_iter().map(|row| row.join(" ")).collect::<Vec<_>>(), expected);
    assert!(matches!(delete(&world, id, Some(1)).await, Deleted::OtherVersion(3)));
    assert!(matches!(delete(&world, JobId(Uuid::new_v4()), None).await, Deleted::NoSuchJob));
    assert!(matches!(restore(&world, JobId(Uuid::new_v4()), None).await, Ok(Restored::NoSuchJob)));
}

async fn once(world: &Fixture, name: &str, days_ago: i64) -> JobId {
    let id = world.job(name).save().await.id;
    let at = world
        .text(&format!(
            "SELECT to_char(now() - interval '{days_ago} days', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
        ))
        .await;
    world
        .sql(&format!(
            "UPDATE scheduled_jobs SET job_type = 'oneoff', schedule_config = '{{\"run_at\": \"{at}\"}}', next_run_at = NULL WHERE name = '{name}'"
        ))
        .await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_one_off_does_not_fire_again() {
    let world = Fixture::new().await;
    // Retention deleted its run and recorded that.
    let fired = once(&world, "fired", 60).await;
    world
        .sql("UPDATE scheduled_jobs SET ledger_starts_at = now() - interval '30 days' WHERE name = 'fired'")
        .await;
    done(delete(&world, fired, None).await);
    assert_eq!(restored(restore(&world, fired, None).await).state.next_run_at, None);
    let missed = once(&world, "missed", 1).await;
    done(delete(&world, missed, None).await);
    assert_eq!(restored(restore(&world, missed, None).await).state.next_run_at, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_records_due_fires() {
    let books = Books::new().await;
    books.record(&[Fate::Dispatched(1), Fate::Dispatched(2)]).await;
    let due = format!(
        "UPDATE scheduled_jobs SET next_run_at = '{}', settled_until = '{}'",
        books.at(3),
        books.at(2)
    );
    books.world.sql(&due).await;
    done(delete(&books.world, books.job.id, None).await);
    assert_eq!(books.skips().await, ["3 10 8 disabled"]);
    assert_eq!(books.gaps().await, [] as [&str; 0]);
    let back = restored(restore(&books.world, books.job.id, None).await);
    assert_eq!(back.state.next_run_at, Some(books.at(11)));
    assert_eq!(books.gaps().await, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_cancels_waiting_runs_only() {
    let world = Fixture::new().await;
    let running = world.running("a").await;
    let id = JobId(world.text("SELECT id FROM scheduled_jobs").await.parse().unwrap());
    world.runs(id).count(3).insert().await;
    let Deleted::Done { after, cancelled, .. } = delete(&world, id, None).await else { panic!() };
    assert_eq!((cancelled.len(), after.state.active_dispatches), (3, 1));
    let counts =
        "SELECT status, count(*), count(error_message) FROM job_dispatch GROUP BY status ORDER BY status";
    assert_eq!(world.rows(counts).await, [["CANCELLED", "3", "3"], ["IN_PROGRESS", "1", "0"]]);
    let marked =
        "SELECT count(*) FROM job_dispatch WHERE status = 'IN_PROGRESS' AND cancel_requested_at IS NOT NULL";
    assert_eq!(world.number(marked).await, 0, "dispatch {}", running.dispatch_id);
    restored(restore(&world, id, None).await);
    assert_eq!(world.number("SELECT count(*) FROM job_dispatch WHERE status = 'PENDING'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_with_a_taken_name_needs_another() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    done(delete(&world, id, None).await);
    let other = world.job("a").save().await.id;
    let refused = restore(&world, id, None).await.unwrap_err();
    assert!(matches!(&refused, SaveError::Exists(name) if name == "a"), "{refused:?}");
    let back = restored(restore(&world, id, Some("a-old")).await);
    assert_eq!((back.id, back.settings.name.as_str()), (id, "a-old"));
    assert_eq!(live(&world, "a").await.unwrap().unwrap().id, other);
    done(delete(&world, other, None).await);
    let latest = jobs::last_deleted(&mut world.conn().await, TENANT, "a").await.unwrap().unwrap();
    assert_eq!(latest.id, other);
}

fn after(name: &str, other: &str) -> JobSettings {
    let after = vec![After { job: other.into(), on: AfterCondition::Success }];
    JobSettings { after, ..settings(name) }
}

#[tokio::test(flavor = "multi_thread")]
async fn job_with_dependents_is_not_deleted() {
    let world = Fixture::new().await;
    let first = world.job("first").save().await.id;
    let second = world.save(&after("second", "first")).await.job.id;
    let refused = delete(&world, first, None).await;
    assert!(matches!(&refused, Deleted::Followed(names) if *names == ["second"]), "{refused:?}");
    done(delete(&world, second, None).await);
    let edges = "SELECT count(*) FROM job_dependencies";
    assert_eq!(world.number(edges).await, 0, "a deleted dependent leaves no dependency");
    done(delete(&world, first, None).await);
    let refused = restore(&world, second, None).await.unwrap_err();
    assert!(matches!(refused, SaveError::Dependency { .. }), "{refused:?}");
    restored(restore(&world, first, None).await);
    let back = restored(restore(&world, second, None).await);
    assert_eq!(back.settings.after.len(), 1);
    assert_eq!(world.number(edges).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rollback_creates_a_new_version() {
    let world = Fixture::new().await;
    let first = world.job("a").save().await;
    let changed = JobSettings { priority: Some(7), ..settings("a") };
    world.save(&changed).await;
    let mut conn = world.conn().await;
    let versions = jobs::versions::list(&mut conn, TENANT, first.id, PageRequest { after: None, limit: 10 })
        .await
        .unwrap();
    assert_eq!(versions.iter().map(|version| version.version).collect::<Vec<_>>(), [2, 1]);
    let older = jobs::versions::list(&mut conn, TENANT, first.id, PageRequest { after: Some(2), limit: 10 })
        .await
        .unwrap();
    assert_eq!(older, versions[1..]);
    let settings: JobSettings = serde_json::from_value(older[0].settings.clone()).unwrap();
    let rolled = transact(&mut conn, "test_roll_back", async |conn: &mut Conn| {
        jobs::roll_back(conn, TENANT, &settings, "ada").await
    });
    let rolled = rolled.await.unwrap();
    assert_eq!((rolled.job.state.version, rolled.job.settings.priority), (3, None));
    assert_eq!(
        world.text("SELECT change FROM scheduled_job_versions WHERE version = 3").await,
        "rolled_back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dependency_on_a_job_being_deleted_is_rejected() {
    let world = Fixture::new().await;
    world.job("first").save().await;
    let deleting = world.db.client().await;
    let delete = "UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL WHERE name = 'first'";
    deleting.batch_execute(&format!("{BEGIN}; {delete}")).await.unwrap();
    let (mut conn, follower) = (world.conn().await, after("second", "first"));
    let saving = async {
        transact(&mut conn, "test_save", async |conn: &mut Conn| {
            jobs::save(conn, TENANT, &follower, Writing::new(SaveMode::Create, "bob")).await
        })
        .await
    };
    let deleted = async {
        world.wait_for_blocked(1).await;
        deleting.batch_execute("COMMIT").await.unwrap();
    };
    let (saved, ()) = tokio::join!(saving, deleted);
    assert!(matches!(saved, Err(SaveError::Dependency { .. })), "{saved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn restore_uses_the_latest_settings() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    world.queue("short-lived").await;
    world.sql("UPDATE scheduled_jobs SET queue = 'short-lived'").await;
    done(delete(&world, id, None).await);
    let other = world.db.client().await;
    // As the deletion of a queue does with deleted jobs that name it.
    other.batch_execute(BEGIN).await.unwrap();
    let forget = "UPDATE scheduled_jobs SET queue = NULL; DELETE FROM queues WHERE name = 'short-lived'";
    other.batch_execute(forget).await.unwrap();
    let meanwhile = async {
        world.wait_for_blocked(1).await;
        other.batch_execute("COMMIT").await.unwrap();
    };
    let (back, ()) = futures_util::future::join(restore(&world, id, None), meanwhile).await;
    assert_eq!(restored(back).settings.queue, None);
}
