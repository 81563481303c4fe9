//! Lists of jobs: every filter, every order, page by page.

use sched_model::domain::job::JobSettings;
use sched_model::domain::run_state::DispatchStatus;
use sched_model::domain::timetable::JobType;
use sched_model::jobs::{self, JobStatus, List, Order, Position, SortBy};
use serde_json::json;
use test_support::fixture::{Fixture, TENANT, settings};

async fn names(world: &Fixture, list: &List) -> String {
    let found = jobs::list(&mut world.conn().await, TENANT, list, 100).await.unwrap();
    found.into_iter().map(|job| job.settings.name).collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_filtered() {
    let world = Fixture::new().await;
    world.function("other").save().await;
    world.queue("fast").await;
    world
        .sql(&format!(
            "INSERT INTO projects (tenant_id, name, display_name) VALUES ('{TENANT}', 'reports', 'Reports')"
        ))
        .await;
    let base = |name: &str| settings(name);
    for job in [
        base("plain"),
        JobSettings { description: "Takes 100% of the load".into(), ..base("paused") },
        JobSettings { function: "other".into(), ..base("stopped") },
        JobSettings { queue: Some("fast".into()), ..base("broken") },
        JobSettings { project: Some("reports".into()), ..base("gone") },
        JobSettings { job_type: JobType::Manual, schedule_config: json!({}), ..base("by_hand") },
    ] {
        world.save(&job).await;
    }
    world
        .sql(
            "UPDATE scheduled_jobs SET is_paused = true WHERE name = 'paused';
             UPDATE scheduled_jobs SET is_enabled = false WHERE name IN ('stopped', 'broken');
             UPDATE scheduled_jobs SET disabled_reason = 'why', last_fire_at = now() WHERE name = 'broken';
             UPDATE scheduled_jobs SET last_status = 'FAILED' WHERE name = 'plain';
             UPDATE scheduled_jobs SET deleted_at = now(), next_run_at = NULL WHERE name = 'gone'",
        )
        .await;
    let all = List::default();
    let status = |status| List { status: Some(status), ..List::default() };
    for (list, expected) in [
        (all.clone(), "broken by_hand paused plain stopped"),
        (List { with_deleted: true, ..all.clone() }, "broken by_hand gone paused plain stopped"),
        (status(JobStatus::Enabled), "by_hand plain"),
        (status(JobStatus::Paused), "paused"),
        (status(JobStatus::Disabled), "stopped"),
        (status(JobStatus::Quarantined), "broken"),
        (status(JobStatus::Deleted), "gone"),
        (List { text: Some("PL".into()), ..all.clone() }, "plain"),
        (List { text: Some("0% of".into()), ..all.clone() }, "paused"),
        (List { text: Some("_".into()), ..all.clone() }, "by_hand"),
        (List { name_prefix: Some("p".into()), ..all.clone() }, "paused plain"),
        (List { name_prefix: Some("%".into()), ..all.clone() }, ""),
        (List { function: Some("other".into()), ..all.clone() }, "stopped"),
        (List { queue: Some("fast".into()), ..all.clone() }, "broken"),
        (List { queue: Some("default".into()), ..all.clone() }, "by_hand paused plain stopped"),
        (List { project: Some("reports".into()), with_deleted: true, ..all.clone() }, "gone"),
        (List { job_type: Some(JobType::Manual), ..all.clone() }, "by_hand"),
        (List { last_status: &[DispatchStatus::Failed], ..all.clone() }, "plain"),
        (List { last_status: &[DispatchStatus::Failed, DispatchStatus::Timeout], ..all.clone() }, "plain"),
    ] {
        assert_eq!(names(&world, &list).await, expected, "{list:?}");
        let count = jobs::count(&mut world.conn().await, TENANT, &list, 100).await.unwrap();
        assert_eq!(count, expected.split_whitespace().count(), "{list:?}");
    }
    assert_eq!(
        jobs::count(&mut world.conn().await, TENANT, &all, 3).await.unwrap(),
        3,
        "no more than asked for"
    );
    let found =
        jobs::list(&mut world.conn().await, TENANT, &List { with_deleted: true, ..all }, 100).await.unwrap();
    let told: Vec<JobStatus> = found.iter().map(JobStatus::of).collect();
    use JobStatus::{Deleted, Disabled, Enabled, Paused, Quarantined};
    assert_eq!(told, [Quarantined, Enabled, Deleted, Paused, Enabled, Disabled]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_is_stable_across_pages() {
    let world = Fixture::new().await;
    for name in ["a", "b", "c", "d", "e"] {
        world.job(name).save().await;
    }
    world
        .sql(
            "UPDATE scheduled_jobs SET next_run_at = NULL, last_run_at = NULL WHERE name IN ('b', 'd');
             UPDATE scheduled_jobs SET next_run_at = '2030-01-01', last_run_at = '2020-01-01' WHERE name IN ('a', 'e');
             UPDATE scheduled_jobs SET next_run_at = '2031-01-01', last_run_at = '2021-01-01' WHERE name = 'c';
             UPDATE scheduled_jobs SET updated_at = '2025-01-01'::timestamptz + (ascii(name) || ' minutes')::interval",
        )
        .await;
    for (by, up, down) in [
        (SortBy::Name, "a b c d e", "e d c b a"),
        (SortBy::NextRun, "a e c b d", "c e a d b"),
        (SortBy::LastRun, "a e c b d", "c e a d b"),
        (SortBy::Updated, "a b c d e", "e d c b a"),
    ] {
        for (is_descending, expected) in [(false, up), (true, down)] {
            let mut list = List { order: Order { by, is_descending }, ..List::default() };
            let mut found = Vec::new();
            loop {
                let page = jobs::list(&mut world.conn().await, TENANT, &list, 2).await.unwrap();
                let Some(last) = page.last() else { break };
                list.after = Some(Position::of(last, by));
                found.extend(page.into_iter().map(|job| job.settings.name));
            }
            assert_eq!(found.join(" "), expected, "{by:?} {is_descending}");
        }
    }
}
