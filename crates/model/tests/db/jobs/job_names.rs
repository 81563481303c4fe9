//! Names in jobs: required references, locks, and lookups.

use sched_model::definitions::functions::{self, Change};
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::{JobSettings, Scope};
use sched_model::jobs::{self, List, Position, SaveError, SaveMode, Shown, SortBy, Writing};
use sched_model::{Conn, transact};
use serde_json::json;
use test_support::fixture::{Fixture, TENANT, function, settings};
use uuid::Uuid;

async fn refused(world: &Fixture, settings: &JobSettings) -> String {
    let mut conn = world.conn().await;
    let saved = transact(&mut conn, "test_save", async |conn: &mut Conn| {
        jobs::save(conn, TENANT, settings, Writing::new(SaveMode::Upsert, "tests")).await
    })
    .await;
    match saved {
        Err(SaveError::Database(error)) => panic!("{error:?}"),
        Err(error) => error.to_string(),
        Ok(saved) => panic!("{saved:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_in_a_job_must_exist() {
    let world = Fixture::new().await;
    let wrong: [(JobSettings, &str); 3] = [
        (
            JobSettings { function: "none".into(), ..settings("a") },
            "function: there is no task function named \"none\"",
        ),
        (
            JobSettings { project: Some("none".into()), ..settings("a") },
            "project: there is no project named \"none\"",
        ),
        (
            JobSettings { queue: Some("none".into()), ..settings("a") },
            "queue: there is no queue named \"none\"",
        ),
    ];
    for (settings, message) in wrong {
        assert_eq!(refused(&world, &settings).await, message);
    }
    let bad = JobSettings { schedule_config: json!({"hours": 0}), ..settings("a") };
    assert!(refused(&world, &bad).await.contains("schedule_config"));
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs").await, 0);
    let mut conn = world.conn().await;
    let orphan = functions::FunctionSettings { queue: "none".into(), ..function("f") };
    let error = functions::save(&mut conn, TENANT, &orphan).await.unwrap_err();
    assert_eq!(error.constraint(), Some("task_functions_queue_fkey"));
}

#[tokio::test(flavor = "multi_thread")]
async fn inactive_function_accepts_no_new_job() {
    let world = Fixture::new().await;
    world.function("other").save().await;
    world.job("old").save().await;
    world.job("moving").save().await;
    world.job("moving").function("other").save().await;
    world.sql("UPDATE task_functions SET is_active = false WHERE name = 'noop'").await;
    let message = "function: \"noop\" is inactive and accepts no new jobs";
    assert_eq!(refused(&world, &settings("new")).await, message);
    assert_eq!(refused(&world, &settings("moving")).await, message);
    let changed = JobSettings { description: "new".into(), ..settings("old") };
    assert_eq!(world.save(&changed).await.change, Change::Updated);
}

#[tokio::test(flavor = "multi_thread")]
async fn function_has_one_job_per_singleton_scope() {
    let world = Fixture::new().await;
    let of = |name: &str, scope: Scope| JobSettings { scope, project: None, ..settings(name) };
    world.save(&of("system", Scope::System)).await;
    world.save(&of("backup", Scope::BackupInfrastructure)).await;
    world.job("one").save().await;
    world.job("two").save().await;
    for scope in [Scope::System, Scope::BackupInfrastructure] {
        let message = refused(&world, &of("second", scope)).await;
        assert_eq!(
            message,
            format!("function: another job of scope {scope} already runs \"noop\"; only one is allowed")
        );
    }
    world.sql("UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL WHERE name = 'system'").await;
    assert_eq!(world.save(&of("second", Scope::System)).await.change, Change::Created);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_job_frees_its_name() {
    let world = Fixture::new().await;
    let old = world.job("a").save().await;
    world.sql("UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL").await;
    let conn = world.conn().await;
    assert!(jobs::by_name(&conn, TENANT, "a").await.unwrap().is_none());
    assert!(jobs::by_id(&conn, TENANT, old.id).await.unwrap().is_none());
    let new = world.job("a").save().await;
    assert_ne!(new.id, old.id);
    assert_eq!(jobs::by_name(&conn, TENANT, "a").await.unwrap().unwrap().id, new.id);
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_by_name_and_page() {
    let world = Fixture::new().await;
    for name in ["e", "a", "d", "b", "gone", "c"] {
        world.job(name).save().await;
    }
    world.sql("UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL WHERE name = 'gone'").await;
    let mut conn = world.conn().await;
    let mut pages: Vec<Vec<String>> = Vec::new();
    let mut list = List::default();
    loop {
        let page = jobs::list(&mut conn, TENANT, &list, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        list.after = Some(Position::of(last, SortBy::Name));
        pages.push(page.into_iter().map(|job| job.settings.name).collect());
    }
    assert_eq!(pages, [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_cannot_use_each_others_objects() {
    let world = Fixture::new().await;
    let job = world.job("a").save().await;
    let other = TenantId(Uuid::new_v4());
    world.sql(&format!("INSERT INTO tenants (id, slug, name) VALUES ('{other}', 'other', 'Other')")).await;
    let mut conn = world.conn().await;
    assert!(jobs::by_id(&conn, other, job.id).await.unwrap().is_none());
    assert!(jobs::by_name(&conn, other, "a").await.unwrap().is_none());
    let all = List { shown: Shown::All, with_deleted: true, ..List::default() };
    assert!(jobs::list(&mut conn, other, &all, 10).await.unwrap().is_empty());
    assert_eq!(jobs::list(&mut conn, TENANT, &all, 10).await.unwrap().len(), 1);
    let saved = jobs::save(&mut conn, other, &settings("a"), Writing::new(SaveMode::Create, "tests")).await;
    assert!(matches!(saved, Err(SaveError::Missing { field: "function", .. })), "{saved:?}");
}
