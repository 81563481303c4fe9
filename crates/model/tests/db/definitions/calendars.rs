//! Calendars: writes, rejected deletions, and no job missed by a change.

use diesel_async::SimpleAsyncConnection;
use sched_model::definitions::calendars::{self, CalendarSettings, DeleteError, SavedCalendar};
use sched_model::definitions::functions::Change;
use sched_model::domain::ids::TenantId;
use sched_model::{Conn, DbError, transact};
use serde_json::json;
use test_support::fixture::{BEGIN, Fixture, TENANT};
use uuid::Uuid;

fn holidays(date: &str) -> CalendarSettings {
    CalendarSettings {
        name: "holidays".into(),
        description: "Public holidays.".into(),
        definition: json!({ "dates": [date] }),
    }
}

async fn save(world: &Fixture, settings: &CalendarSettings) -> SavedCalendar {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_save", async |conn: &mut Conn| {
        calendars::save(conn, TENANT, settings, "tests").await
    })
    .await
    .unwrap()
}

async fn delete(world: &Fixture, name: &str) -> Result<Option<String>, DeleteError> {
    let mut conn = world.conn().await;
    let deleted = transact(&mut conn, "test_delete", async |conn: &mut Conn| {
        calendars::delete(conn, TENANT, name).await
    })
    .await?;
    Ok(deleted.map(|calendar| calendar.name))
}

/// Names calendars in a job, without the check of a write.
async fn names(world: &Fixture, job: &str, calendars: &str) {
    world.sql(&format!("UPDATE scheduled_jobs SET calendars = '{{{calendars}}}' WHERE name = '{job}'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calendar_is_created_changed_and_left_unchanged() {
    let world = Fixture::new().await;
    let created = save(&world, &holidays("2026-12-24")).await;
    assert_eq!(
        (created.change, created.calendar.version, created.before.is_none()),
        (Change::Created, 1, true)
    );
    assert!(!created.changes_fires(), "no job can have named it before");
    let same = save(&world, &holidays("2026-12-24")).await;
    assert_eq!((same.change, same.calendar.version), (Change::Unchanged, 1));
    assert_eq!(same.calendar.updated_at, created.calendar.updated_at);
    assert!(!same.changes_fires());
    let renamed = CalendarSettings { description: "Days off.".into(), ..holidays("2026-12-24") };
    let described = save(&world, &renamed).await;
    assert_eq!((described.change, described.calendar.version), (Change::Updated, 2));
    assert!(!described.changes_fires(), "words move no fire");
    let moved = save(&world, &holidays("2026-12-25")).await;
    assert_eq!(
        (moved.change, moved.calendar.version, moved.before.clone()),
        (Change::Updated, 3, Some(renamed))
    );
    assert!(moved.changes_fires());
    assert_eq!(
        (moved.calendar.id, moved.calendar.created_at),
        (created.calendar.id, created.calendar.created_at)
    );
    assert!(moved.calendar.updated_at > created.calendar.updated_at);
    let mut conn = world.conn().await;
    let kept = calendars::by_name(&mut conn, TENANT, "holidays").await.unwrap().unwrap();
    assert_eq!(kept.settings(), holidays("2026-12-25"));
    assert_eq!((kept.created_src.as_str(), kept.updated_src.as_str()), ("tests", "tests"));
}

#[tokio::test(flavor = "multi_thread")]
async fn calendars_are_found_and_listed_by_page() {
    let world = Fixture::new().await;
    for name in ["c", "a", "d", "b"] {
        save(&world, &CalendarSettings { name: name.into(), ..holidays("2026-01-01") }).await;
    }
    let mut conn = world.conn().await;
    let mut pages: Vec<Vec<String>> = Vec::new();
    loop {
        let after = pages.last().and_then(|page| page.last()).map(String::as_str);
        let page = calendars::list(&mut conn, TENANT, after, 3).await.unwrap();
        if page.is_empty() {
            break;
        }
        pages.push(page.into_iter().map(|calendar| calendar.name).collect());
    }
    assert_eq!(pages, [vec!["a", "b", "c"], vec!["d"]]);
    let wanted = ["d", "nobody", "a"].map(str::to_owned);
    let found = calendars::by_names(&conn, TENANT, &wanted).await.unwrap();
    assert_eq!(found.iter().map(|calendar| calendar.name.as_str()).collect::<Vec<_>>(), ["a", "d"]);
    assert!(calendars::by_name(&mut conn, TENANT, "nobody").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn calendar_in_use_is_not_deleted() {
    let world = Fixture::new().await;
    save(&world, &holidays("2026-12-24")).await;
    let uses = async || {
        let mut conn = world.conn().await;
        calendars::jobs_using(&mut conn, TENANT, "holidays").await.unwrap()
    };
    let mut ids = Vec::new();
    for number in 0..10 {
        let name = format!("job-{number}");
        ids.push(world.job(&name).save().await.id);
        names(&world, &name, "other,holidays").await;
    }
    world.job("free").save().await;
    names(&world, "free", "other").await;
    ids.sort();
    assert_eq!(uses().await, ids);
    let ten: Vec<String> = (0..10).map(|number| format!("job-{number}")).collect();
    let refused = delete(&world, "holidays").await.unwrap_err();
    assert!(matches!(&refused, DeleteError::InUse { jobs, more: false } if *jobs == ten), "{refused:?}");
    names(&world, "free", "holidays").await;
    let refused = delete(&world, "holidays").await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "jobs name this calendar: free, job-0, job-1, job-2, job-3, job-4, job-5, job-6, job-7, job-8 and more"
    );
    assert_eq!(world.number("SELECT count(*) FROM calendars").await, 1);
    world.sql("UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL").await;
    assert_eq!(uses().await, []);
    assert_eq!(delete(&world, "holidays").await.unwrap().as_deref(), Some("holidays"));
    assert!(delete(&world, "holidays").await.unwrap().is_none());
    assert_eq!(world.number("SELECT count(*) FROM calendars").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_write_locks_its_calendars() {
    let world = Fixture::new().await;
    save(&world, &holidays("2026-12-24")).await;
    let job = world.job("a").save().await;
    let mut holder = world.conn().await;
    holder.batch_execute(BEGIN).await.unwrap();
    let wanted = ["holidays".to_owned(), "nobody".to_owned()];
    let held = calendars::lock_named(&mut holder, TENANT, &wanted).await.unwrap();
    assert_eq!(held.iter().map(|calendar| calendar.name.as_str()).collect::<Vec<_>>(), ["holidays"]);
    let mut second = world.conn().await;
    assert_eq!(
        calendars::lock_named(&mut second, TENANT, &wanted).await.unwrap().len(),
        1,
        "writers of jobs share it"
    );
    let write = async {
        world.wait_for_blocked(2).await;
        // Only now the transaction ends.
        names(&world, "a", "holidays").await;
        holder.batch_execute("COMMIT").await.unwrap();
    };
    let change = async {
        let mut conn = world.conn().await;
        transact(&mut conn, "test_save", async |conn: &mut Conn| {
            let saved = calendars::save(conn, TENANT, &holidays("2026-12-25"), "tests").await?;
            assert!(saved.changes_fires());
            calendars::jobs_using(conn, TENANT, "holidays").await
        })
        .await
        .unwrap()
    };
    let (seen, deleted, ()) = tokio::join!(change, delete(&world, "holidays"), write);
    assert_eq!(seen, [job.id], "the change sees the job that was written under the old definition");
    assert!(matches!(deleted, Err(DeleteError::InUse { .. })), "{deleted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calendar_deletion_wins_over_waiting_jobs() {
    let world = Fixture::new().await;
    save(&world, &holidays("2026-12-24")).await;
    let holder = world.db.client().await;
    holder.batch_execute(&format!("{BEGIN}; DELETE FROM calendars")).await.unwrap();
    let end = async {
        world.wait_for_blocked(1).await;
        holder.batch_execute("COMMIT").await.unwrap();
    };
    let mut conn = world.conn().await;
    let wanted = ["holidays".to_owned()];
    let (held, ()) = tokio::join!(calendars::lock_named(&mut conn, TENANT, &wanted), end);
    assert!(held.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_creations_insert_one_calendar() {
    let world = Fixture::new().await;
    let (first, second) = (holidays("2026-12-24"), holidays("2026-12-25"));
    let (a, b) = tokio::join!(save(&world, &first), save(&world, &second));
    let mut versions = [a.calendar.version, b.calendar.version];
    versions.sort_unstable();
    assert_eq!(versions, [1, 2]);
    assert_eq!(a.calendar.id, b.calendar.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_cannot_access_calendars_of_each_other() {
    let world = Fixture::new().await;
    save(&world, &holidays("2026-12-24")).await;
    world.job("a").save().await;
    names(&world, "a", "holidays").await;
    let other = TenantId(Uuid::new_v4());
    world.sql(&format!("INSERT INTO tenants (id, slug, name) VALUES ('{other}', 'other', 'Other')")).await;
    let mut conn = world.conn().await;
    let wanted = ["holidays".to_owned()];
    assert!(calendars::by_name(&mut conn, other, "holidays").await.unwrap().is_none());
    assert!(calendars::by_names(&conn, other, &wanted).await.unwrap().is_empty());
    assert!(calendars::list(&mut conn, other, None, 10).await.unwrap().is_empty());
    assert!(calendars::lock_named(&mut conn, other, &wanted).await.unwrap().is_empty());
    assert!(calendars::jobs_using(&mut conn, other, "holidays").await.unwrap().is_empty());
    assert!(calendars::delete(&mut conn, other, "holidays").await.unwrap().is_none());
    let own = calendars::save(&mut conn, other, &holidays("2030-01-01"), "tests").await.unwrap();
    assert_eq!(own.change, Change::Created);
    let deleted = calendars::delete(&mut conn, other, "holidays").await.unwrap();
    assert!(deleted.is_some(), "the jobs of the first tenant do not hold it");
    let kept = calendars::by_name(&mut conn, TENANT, "holidays").await.unwrap().unwrap();
    assert_eq!(kept.settings(), holidays("2026-12-24"));
}

#[tokio::test(flavor = "multi_thread")]
async fn table_constraints_reject_invalid_calendars() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    for (settings, constraint) in [
        (CalendarSettings { name: "Not A Name".into(), ..holidays("2026-12-24") }, "calendars_name_check"),
        (CalendarSettings { definition: json!([]), ..holidays("2026-12-24") }, "calendars_definition_check"),
    ] {
        let error: DbError = calendars::save(&mut conn, TENANT, &settings, "tests").await.unwrap_err();
        assert_eq!(error.constraint(), Some(constraint));
    }
}
