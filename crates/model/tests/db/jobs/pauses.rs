//! Pausing, resuming, enabling and disabling jobs: versions, and exact ledgers.

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::ids::JobId;
use sched_model::domain::job::JobSettings;
use sched_model::domain::timetable::SkipReason;
use sched_model::jobs::{self, NewPause, PauseEnd, Switch, SwitchRequest, Switched};
use sched_model::{Conn, connection::database_clock, transact};
use serde_json::json;
use test_support::fixture::{Fixture, TENANT, settings};
use uuid::Uuid;

use crate::dispatching::tick::due;
use crate::explain::ledger::{Books, Fate};

async fn switch(world: &Fixture, job: JobId, switch: Switch<'_>) -> Switched {
    let mut conn = world.conn().await;
    let request = SwitchRequest { tenant: TENANT, job, switch, version: None, source: "ada" };
    let switched =
        transact(&mut conn, "test_switch", async |conn: &mut Conn| jobs::switch(conn, &request).await);
    switched.await.unwrap()
}

#[track_caller]
fn changed(switched: Switched) -> jobs::Job {
    match switched {
        Switched::Changed { after, .. } => *after,
        other => panic!("{other:?}"),
    }
}

fn pause(until: Option<DateTime<Utc>>) -> Switch<'static> {
    let end = until.map_or(PauseEnd::Never, PauseEnd::At);
    Switch::Pause(NewPause { reason: Some("disk is full"), end })
}

async fn now(world: &Fixture) -> DateTime<Utc> {
    database_clock::now(&world.conn().await).await.unwrap()
}

async fn versions(world: &Fixture) -> Vec<String> {
    let query = "SELECT version, change, changed_src, pause_reason, paused_until IS NOT NULL FROM scheduled_job_versions ORDER BY version";
    world.rows(query).await.into_iter().map(|row| row.join(" ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_switch_adds_one_version() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    let until = now(&world).await + TimeDelta::hours(1);
    for step in [pause(Some(until)), Switch::Resume, Switch::Disable, Switch::Enable] {
        let before = versions(&world).await.len();
        changed(switch(&world, id, step).await);
        let again = switch(&world, id, step).await;
        assert!(matches!(again, Switched::Unchanged(_)), "{step:?}: {again:?}");
        assert_eq!(versions(&world).await.len(), before + 1, "{step:?}");
    }
    assert_eq!(
        versions(&world).await,
        [
            "1 created tests - f",
            "2 paused ada disk is full t",
            "3 resumed ada - f",
            "4 disabled ada - f",
            "5 enabled ada - f",
        ]
    );
    let flags = "SELECT is_enabled, is_paused, pause_reason, paused_until, version FROM scheduled_jobs";
    assert_eq!(world.rows(flags).await, [["t", "f", "-", "-", "5"]]);
    assert_eq!(world.number("SELECT count(*) FROM scheduled_jobs WHERE next_run_at > now()").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_switch_is_rejected() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    let mut conn = world.conn().await;
    let request =
        SwitchRequest { tenant: TENANT, job: id, switch: Switch::Disable, version: Some(2), source: "ada" };
    let other = jobs::switch(&mut conn, &request).await.unwrap();
    assert!(matches!(other, Switched::OtherVersion(1)), "{other:?}");
    let own = jobs::switch(&mut conn, &SwitchRequest { version: Some(1), ..request }).await.unwrap();
    assert!(matches!(own, Switched::Changed { .. }), "{own:?}");
    let passed = now(&world).await - TimeDelta::seconds(1);
    let refused = switch(&world, id, pause(Some(passed))).await;
    assert!(matches!(refused, Switched::EndHasPassed { .. }), "{refused:?}");
    let nobody = switch(&world, JobId(Uuid::new_v4()), Switch::Resume).await;
    assert!(matches!(nobody, Switched::NoSuchJob), "{nobody:?}");
    assert_eq!(versions(&world).await.len(), 2);
}

async fn due_since_the_third_hour() -> Books {
    let books = Books::new().await;
    books.record(&[Fate::Dispatched(1), Fate::Dispatched(2)]).await;
    let sql = format!(
        "UPDATE scheduled_jobs SET next_run_at = '{}', settled_until = '{}'",
        books.at(3),
        books.at(2)
    );
    books.world.sql(&sql).await;
    books
}

#[tokio::test(flavor = "multi_thread")]
async fn resume_records_held_fires() {
    let books = due_since_the_third_hour().await;
    changed(switch(&books.world, books.job.id, pause(None)).await);
    assert_eq!(books.skips().await, [] as [&str; 0], "the scheduler records it when it comes by");
    let job = changed(switch(&books.world, books.job.id, Switch::Resume).await);
    assert_eq!(books.skips().await, ["3 10 8 paused_job"]);
    assert_eq!(job.state.next_run_at, Some(books.at(11)));
    assert_eq!(books.gaps().await, [] as [&str; 0]);
    assert_eq!(job.state.last_fire_at, Some(books.at(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_pause_holds_nothing_after_its_end() {
    let books = due_since_the_third_hour().await;
    changed(switch(&books.world, books.job.id, pause(None)).await);
    books.world.sql(&format!("UPDATE scheduled_jobs SET paused_until = '{}'", books.at(7))).await;
    let mut conn = books.world.conn().await;
    let seen = due(&mut conn, 10).await;
    assert_eq!(
        (seen[0].paused_by, seen[0].paused_until),
        (Some(SkipReason::PausedJob), Some(books.at(7))),
        "fires before the end are held"
    );
    let state = jobs::by_id(&conn, TENANT, books.job.id).await.unwrap().unwrap().state;
    assert!(!state.is_paused, "the job is no longer shown as paused");
    assert_eq!(books.world.text("SELECT state FROM job_health").await, "active");

    let job = changed(switch(&books.world, books.job.id, Switch::Resume).await);
    assert_eq!(books.skips().await, ["3 6 4 paused_job"]);
    assert_eq!(job.state.next_run_at, Some(books.at(7)), "the fire at its end is due");
    assert_eq!(job.state.settled_until, books.at(7) - TimeDelta::microseconds(1));
    let seen = due(&mut conn, 10).await;
    assert_eq!((seen[0].paused_by, seen[0].paused_until), (None, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fire_at_or_after_the_end_of_a_pause_is_not_held() {
    let books = due_since_the_third_hour().await;
    changed(switch(&books.world, books.job.id, pause(None)).await);
    books.world.sql(&format!("UPDATE scheduled_jobs SET paused_until = '{}'", books.at(3))).await;
    let mut conn = books.world.conn().await;
    assert_eq!(due(&mut conn, 10).await[0].paused_by, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_paused_job_records_what_the_pause_held_as_paused() {
    let changes: [fn(&mut JobSettings); 2] =
        [|settings| settings.schedule_config = json!({"hours": 2}), |settings| settings.is_enabled = false];
    for change in changes {
        let books = due_since_the_third_hour().await;
        changed(switch(&books.world, books.job.id, pause(None)).await);
        let mut after = settings("hourly");
        change(&mut after);
        let saved = books.world.save(&after).await;
        assert_eq!(books.skips().await, ["3 10 8 paused_job"], "{after:?}");
        assert!(saved.job.state.is_paused, "a change of the settings is no end of a pause");
        assert!(saved.job.state.next_run_at.is_none_or(|next| next > books.at(10)));
        assert_eq!(books.gaps().await, [] as [&str; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_job_has_no_fires() {
    let books = due_since_the_third_hour().await;
    let job = changed(switch(&books.world, books.job.id, Switch::Disable).await);
    assert_eq!((job.state.next_run_at, job.settings.is_enabled), (None, false));
    assert_eq!(books.skips().await, ["3 10 8 disabled"]);
    assert_eq!(books.gaps().await, [] as [&str; 0]);
    let job = changed(switch(&books.world, books.job.id, Switch::Enable).await);
    assert_eq!(job.state.next_run_at, Some(books.at(11)));
    assert_eq!(books.gaps().await, [] as [&str; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pausing_again_changes_only_named_fields() {
    let world = Fixture::new().await;
    let id = world.job("a").save().await.id;
    let until = now(&world).await + TimeDelta::hours(1);
    let later = until + TimeDelta::hours(1);
    let none = NewPause::default();
    let steps = [
        (NewPause { reason: Some("disk"), end: PauseEnd::At(until) }, Some("disk"), Some(until)),
        (none, Some("disk"), Some(until)),
        (NewPause { reason: Some("still full"), ..none }, Some("still full"), Some(until)),
        (NewPause { end: PauseEnd::At(later), ..none }, Some("still full"), Some(later)),
        (NewPause { end: PauseEnd::Never, ..none }, Some("still full"), None),
    ];
    for (asked, reason, until) in steps {
        switch(&world, id, Switch::Pause(asked)).await;
        let job = jobs::by_id(&world.conn().await, TENANT, id).await.unwrap().unwrap();
        assert_eq!((job.state.pause_reason.as_deref(), job.state.paused_until), (reason, until), "{asked:?}");
    }
    assert_eq!(versions(&world).await.len(), 5, "one for each that changed something");
    world.sql("UPDATE scheduled_jobs SET paused_until = now() - interval '1 second'").await;
    let job = changed(switch(&world, id, Switch::Pause(none)).await);
    assert_eq!((job.state.is_paused, job.state.pause_reason, job.state.paused_until), (true, None, None));
}
