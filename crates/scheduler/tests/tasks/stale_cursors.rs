//! Jobs written with plain SQL, as a user of `psql` writes them.

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::jobs::{self, Switch, SwitchRequest, Switched};
use sched_model::{Conn, transact};
use sched_runtime::driver::{Activation, Report};
use sched_scheduler::tasks::cursors::Cursors;
use test_support::fixture::{TENANT, ended};

use crate::leader::{Leader, assert_refused, run};
use crate::refused::dispatch;

fn cursors(leader: &Leader) -> Cursors {
    Cursors { scope: leader.scope.clone() }
}

/// Inserts a job with the columns that a user must give.
async fn insert(leader: &Leader, name: &str, job_type: &str, config: &str) {
    leader
        .sql(&format!(
            "INSERT INTO scheduled_jobs (tenant_id, project_id, name, task_function_id, job_type, schedule_config)
             SELECT f.tenant_id, p.id, '{name}', f.id, '{job_type}', '{config}'
             FROM task_functions f JOIN projects p ON p.tenant_id = f.tenant_id WHERE f.name = 'noop'"
        ))
        .await;
}

async fn marked(leader: &Leader) -> i64 {
    leader.number("SELECT count(*) FROM scheduled_jobs WHERE is_cursor_stale").await
}

#[tokio::test(flavor = "multi_thread")]
async fn inserted_job_gets_its_cursor() {
    let leader = Leader::new().await;
    insert(&leader, "cron", "cron", r#"{"expression": "0 2 * * *"}"#).await;
    insert(&leader, "interval", "interval", r#"{"hours": 1}"#).await;
    insert(&leader, "once", "oneoff", r#"{"run_at": "2020-01-01T00:00:00Z"}"#).await;
    insert(&leader, "manual", "manual", "{}").await;
    let mut task = cursors(&leader);
    let report = run(&mut task).await;
    assert_eq!((&report.counts["computed"], &report.counts["disabled"]), (&3.into(), &0.into()));
    let next = "SELECT name, CASE name WHEN 'cron' THEN next_run_at = date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
                                                + CASE WHEN now() AT TIME ZONE 'UTC' < date_trunc('day', now() AT TIME ZONE 'UTC') + interval '2 hours'
                                                       THEN interval '2 hours' ELSE interval '26 hours' END
                                   WHEN 'interval' THEN next_run_at = created_at + interval '1 hour'
                                   WHEN 'once' THEN next_run_at = '2020-01-01T00:00:00Z' END
                FROM scheduled_jobs ORDER BY name";
    let expected = [["cron", "t"], ["interval", "t"], ["manual", "-"], ["once", "t"]];
    assert_eq!(leader.rows(next).await, expected);
    let versions = "SELECT count(*) FROM scheduled_job_versions WHERE version = 1 AND change = 'created' AND changed_src = 'sql'";
    assert_eq!(leader.number(versions).await, 3);
    assert_eq!((marked(&leader).await, run(&mut task).await), (0, Report::idle()));
    // A time in the past fires once, by the misfire policy.
    assert_eq!(run(&mut dispatch(&leader)).await.counts["dispatched"], 1);
    assert_eq!(leader.number("SELECT count(*) FROM ledger_gaps").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rescheduled_job_gets_new_cursor() {
    let leader = Leader::new().await;
    leader.job("hourly").every_hours(1).save().await;
    leader.job("stopped").every_hours(1).disabled().save().await;
    let mut task = cursors(&leader);
    for (change, name, next) in [
        (r#"schedule_config = '{"hours": 2}'"#, "hourly", "created_at + interval '2 hours'"),
        (
            r#"job_type = 'oneoff', schedule_config = '{"run_at": "2090-01-01T00:00:00Z"}'"#,
            "hourly",
            "'2090-01-01T00:00:00Z'",
        ),
        (
            r#"job_type = 'interval', schedule_config = '{"hours": 3}', next_run_at = NULL"#,
            "hourly",
            "created_at + interval '3 hours'",
        ),
        ("end_at = now() + interval '1 minute'", "hourly", "NULL"),
        (
            "end_at = NULL, start_at = created_at + interval '5 hours'",
            "hourly",
            "created_at + interval '6 hours'",
        ),
        ("is_enabled = true", "stopped", "created_at + interval '1 hour'"),
    ] {
        leader.sql(&format!("UPDATE scheduled_jobs SET {change} WHERE name = '{name}'")).await;
        assert_eq!(run(&mut task).await.counts["computed"], 1, "{change}");
        let moved = format!(
            "SELECT next_run_at IS NOT DISTINCT FROM {next}, next_run_at FROM scheduled_jobs WHERE name = '{name}'"
        );
        let moved = leader.rows(&moved).await.remove(0);
        assert_eq!(moved[0], "t", "{change}: {moved:?}");
    }
    assert_eq!(leader.number("SELECT count(*) FROM skipped_fires").await, 0);
    let versions =
        "SELECT j.name, v.version, v.changed_src, v.settings ->> 'is_enabled', v.version = j.version
                    FROM scheduled_job_versions v JOIN scheduled_jobs j ON j.id = v.job_id
                    WHERE v.version IN (1, 2, 6) ORDER BY j.name, v.version";
    let expected = [
        ["hourly", "1", "tests", "true", "f"],
        ["hourly", "2", "sql", "true", "f"],
        ["hourly", "6", "sql", "true", "t"],
        ["stopped", "1", "tests", "false", "f"],
        ["stopped", "2", "sql", "true", "t"],
    ];
    assert_eq!(leader.rows(versions).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn due_fire_outlives_reschedule() {
    let leader = Leader::new().await;
    leader.job("hourly").every_hours(1).save().await;
    leader
        .sql(
            r#"UPDATE scheduled_jobs SET next_run_at = now() - interval '1 second', settled_until = now() - interval '1 hour';
               UPDATE scheduled_jobs SET schedule_config = '{"minutes": 1}'"#,
        )
        .await;
    run(&mut cursors(&leader)).await;
    let due = "SELECT next_run_at < now() AND settled_until > next_run_at FROM scheduled_jobs";
    assert_eq!(leader.text(due).await, "t");
    assert_eq!(run(&mut dispatch(&leader)).await.counts["dispatched"], 1);
    assert_eq!(leader.number("SELECT count(*) FROM skipped_fires").await, 0, "the minutes before the change");
    assert_eq!(leader.number("SELECT count(*) FROM ledger_gaps").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_schedules_disable_with_reason() {
    let leader = Leader::new().await;
    insert(&leader, "zone", "cron", r#"{"expression": "0 2 * * *"}"#).await;
    insert(&leader, "calendar", "interval", r#"{"hours": 1}"#).await;
    insert(&leader, "config", "interval", r#"{"hours": "soon"}"#).await;
    insert(&leader, "good", "interval", r#"{"hours": 1}"#).await;
    leader
        .sql(
            "UPDATE scheduled_jobs SET timezone = 'Nowhere' WHERE name = 'zone';
             UPDATE scheduled_jobs SET calendars = '{holidays}' WHERE name = 'calendar'",
        )
        .await;
    let report = run(&mut cursors(&leader)).await;
    assert_eq!((&report.counts["computed"], &report.counts["disabled"]), (&1.into(), &3.into()));
    let reasons = "SELECT name, is_enabled, CASE name WHEN 'zone' THEN disabled_reason LIKE 'timezone%Nowhere%'
                                           WHEN 'calendar' THEN disabled_reason LIKE 'calendars: there is no calendar%holidays%'
                                           WHEN 'config' THEN disabled_reason LIKE 'schedule_config%' END,
                          (SELECT v.changed_src FROM scheduled_job_versions v WHERE v.job_id = j.id AND v.version = j.version)
                   FROM scheduled_jobs j ORDER BY name";
    assert_eq!(
        leader.rows(reasons).await,
        [
            ["calendar", "f", "t", "scheduler"],
            ["config", "f", "t", "scheduler"],
            ["good", "t", "-", "sql"],
            ["zone", "f", "t", "scheduler"],
        ]
    );
    assert_eq!(marked(&leader).await, 0);
    assert_eq!(
        leader
            .number("SELECT count(*) FROM audit_log WHERE actor = 'scheduler' AND action = 'disable_job'")
            .await,
        3
    );
    assert_eq!(leader.number("SELECT count(*) FROM events WHERE event_type = 'job_disabled'").await, 3);
    let quarantined = jobs::List { status: Some(jobs::JobStatus::Quarantined), ..jobs::List::default() };
    assert_eq!(jobs::count(&mut leader.conn().await, TENANT, &quarantined, 10).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn computed_cursors_and_counters_stay_unmarked() {
    let leader = Leader::new().await;
    let job = leader.job("hourly").max_instances(1).save().await;
    leader.job("ended").settings(|settings| settings.max_runs = Some(3)).save().await;
    leader.save(&leader.job("hourly").every_hours(2).build()).await;
    for statement in [
        "UPDATE scheduled_jobs SET total_run_count = total_run_count + 1, active_dispatches = 1, last_status = 'FAILED'",
        "UPDATE scheduled_jobs SET next_run_at = now() - interval '1 second', settled_until = now() - interval '2 seconds'",
        "UPDATE scheduled_jobs SET description = 'x', priority = 3, is_paused = true",
        "UPDATE scheduled_jobs SET schedule_config = schedule_config, timezone = timezone",
        r#"UPDATE scheduled_jobs SET schedule_config = '{"hours": 5}', next_run_at = now() + interval '5 hours'"#,
    ] {
        leader.sql(statement).await;
        assert_eq!(marked(&leader).await, 0, "{statement}");
    }
    for switch in [Switch::Disable, Switch::Enable] {
        let request = SwitchRequest { tenant: TENANT, job: job.id, switch, version: None, source: "u" };
        let work = async |conn: &mut Conn| jobs::switch(conn, &request).await;
        transact(&mut leader.conn().await, "test_switch", work).await.unwrap();
        assert_eq!(marked(&leader).await, 0, "{switch:?}");
    }
}

/// The triggers cost nothing where jobs fire and runs are counted.
#[tokio::test(flavor = "multi_thread")]
async fn hot_statements_fire_no_trigger_of_jobs() {
    let leader = Leader::new().await;
    leader.job("hourly").save().await;
    leader
        .sql(
            "UPDATE scheduled_jobs SET next_run_at = now() - interval '1 second', settled_until = now() - interval '2 seconds';
             CREATE FUNCTION note_stale_cursor_seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a trigger fired'; END $$;
             DO $$
             DECLARE found record;
             BEGIN
                 FOR found IN SELECT t.tgname, pg_get_triggerdef(t.oid) AS def FROM pg_trigger t
                              WHERE t.tgrelid = 'scheduled_jobs'::regclass AND NOT t.tgisinternal AND t.tgname <> 'scheduled_jobs_inserted' LOOP
                     EXECUTE format('DROP TRIGGER %I ON scheduled_jobs', found.tgname);
                     -- Without its condition, so that a named column is enough.
                     EXECUTE regexp_replace(regexp_replace(found.def, ' WHEN \\(.*\\) EXECUTE', ' EXECUTE'),
                                            'EXECUTE FUNCTION .*$', 'EXECUTE FUNCTION note_stale_cursor_seen()');
                 END LOOP;
             END $$",
        )
        .await;
    let dispatched = run(&mut dispatch(&leader)).await;
    assert!(dispatched.counts["dispatched"].as_u64() >= Some(1), "{:?}", dispatched.counts);
    let claimed = leader.claim_as_new_worker(1).await;
    leader.end(&[ended(&claimed[0], AttemptOutcome::Completed).build()], &[]).await;
    assert_eq!(leader.text("SELECT last_status FROM scheduled_jobs").await, "COMPLETED");
}

#[tokio::test(flavor = "multi_thread")]
async fn enable_computes_the_cursor_at_once() {
    let leader = Leader::new().await;
    insert(&leader, "mine", "interval", r#"{"hours": 1}"#).await;
    let conn = leader.conn().await;
    let job = jobs::by_name(&conn, TENANT, "mine").await.unwrap().unwrap();
    assert_eq!((job.state.next_run_at, marked(&leader).await), (None, 1));
    let request =
        SwitchRequest { tenant: TENANT, job: job.id, switch: Switch::Enable, version: Some(1), source: "u" };
    let work = async |conn: &mut Conn| jobs::switch(conn, &request).await;
    let switched = transact(&mut leader.conn().await, "test_switch", work).await.unwrap();
    let Switched::Unchanged(job) = switched else { panic!("{switched:?}") };
    assert!(job.state.next_run_at.is_some(), "{job:?}");
    assert_eq!((marked(&leader).await, run(&mut cursors(&leader)).await), (0, Report::idle()));
}

#[tokio::test(flavor = "multi_thread")]
async fn former_leader_computes_no_cursor() {
    let leader = Leader::new().await;
    insert(&leader, "mine", "interval", r#"{"hours": 1}"#).await;
    assert_refused(&Cursors { scope: leader.deposed() }.run_once().await);
    assert_eq!(marked(&leader).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejected_cursor_disables_only_its_job() {
    let leader = Leader::new().await;
    insert(&leader, "bad", "interval", r#"{"hours": 1}"#).await;
    insert(&leader, "good", "interval", r#"{"hours": 1}"#).await;
    leader
        .sql("ALTER TABLE scheduled_jobs ADD CONSTRAINT refuses_one CHECK (name <> 'bad' OR next_run_at IS NULL)")
        .await;
    let report = run(&mut cursors(&leader)).await;
    assert_eq!((&report.counts["computed"], &report.counts["disabled"]), (&1.into(), &1.into()));
    let disabled =
        "SELECT name FROM scheduled_jobs WHERE NOT is_enabled AND disabled_reason LIKE '%refuses_one%'";
    assert_eq!(leader.records(disabled).await, ["(bad)"]);
}
