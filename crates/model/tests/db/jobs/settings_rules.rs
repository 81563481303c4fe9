//! The rules of a job's settings are checked only at writes.

use test_support::fixture::Fixture;

const BROKEN: &[(&str, &str)] = &[
    ("after", r#"{"after": {}}"#),
    ("after_mode", r#"{"after_mode": "none"}"#),
    ("calendar_roll", r#"{"calendar_roll": "next"}"#),
    ("calendars", r#"{"calendars": ["a", null]}"#),
    ("dst_gap", r#"{"dst_gap": "first"}"#),
    ("dst_overlap", r#"{"dst_overlap": "skip"}"#),
    ("end_after_start", r#"{"start_at": "2026-01-02T00:00:00Z", "end_at": "2026-01-02T00:00:00Z"}"#),
    ("expected_duration", r#"{"expected_duration_seconds": 0}"#),
    ("jitter", r#"{"jitter_seconds": 86401}"#),
    ("made_from", r#"{"made_from": {"template": "a", "version": "1", "parameters": {}}}"#),
    ("max_instances", r#"{"max_instances": 0}"#),
    ("max_runs", r#"{"max_runs": 0}"#),
    ("misfire_cap", r#"{"misfire_cap": 10001}"#),
    ("misfire_grace", r#"{"misfire_grace_seconds": 0}"#),
    ("misfire_policy", r#"{"misfire_policy": "fire"}"#),
    ("name", r#"{"name": "A name"}"#),
    ("overlap_policy", r#"{"overlap_policy": "wait"}"#),
    ("priority", r#"{"priority": 101}"#),
    ("project_iff_project_scope", r#"{"project_id": null}"#),
    ("retry_policy", r#"{"retry_policy": []}"#),
    ("schedule_config", r#"{"schedule_config": []}"#),
    ("scope", r#"{"scope": "tenant", "project_id": null}"#),
    ("start_within", r#"{"start_within_seconds": 0}"#),
    ("task_args", r#"{"task_args": 1}"#),
    ("timeout", r#"{"timeout_seconds": -1}"#),
    ("version", r#"{"version": 0}"#),
];

#[tokio::test(flavor = "multi_thread")]
async fn broken_rule_is_named() {
    let world = Fixture::new().await;
    world.job("sound").save().await;
    let client = world.db.client().await;
    for (rule, broken) in BROKEN {
        let columns = world
            .text(&format!(
                "SELECT string_agg(quote_ident(key), ', ') FROM jsonb_object_keys('{broken}') AS key"
            ))
            .await;
        let changed = format!(
            "UPDATE scheduled_jobs j SET ({columns}) = (SELECT {columns} FROM jsonb_populate_record(j, '{broken}'))"
        );
        let made = format!(
            "INSERT INTO scheduled_jobs
             SELECT n.* FROM scheduled_jobs j, jsonb_populate_record(j, '{{\"name\": \"other\"}}') o,
                 jsonb_populate_record(o, jsonb_build_object('id', gen_random_uuid()) || '{broken}') n"
        );
        for statement in [changed, made] {
            let error = client.batch_execute(&statement).await.unwrap_err();
            let error = error.as_db_error().unwrap();
            assert_eq!(error.code().code(), "23514", "{rule}: {error}");
            assert_eq!(error.constraint(), Some(format!("scheduled_jobs_{rule}_check").as_str()), "{error}");
            assert_eq!(error.table(), Some("scheduled_jobs"));
        }
    }
    assert_eq!(world.rows("SELECT name, version FROM scheduled_jobs").await, [["sound", "1"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_rule_is_checked_at_relevant_writes() {
    let world = Fixture::new().await;
    let of_trigger = "FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid WHERE t.tgname = 'scheduled_jobs_settings_checked'";
    let rules = world
        .text(&format!(
            "SELECT string_agg(m[1], ' ' ORDER BY m[1]) FROM
                 (SELECT regexp_matches(p.prosrc, '''scheduled_jobs_(\\w+)_check''', 'g') AS m {of_trigger}) AS rules"
        ))
        .await;
    let tried: Vec<&str> = BROKEN.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(rules, tried.join(" "));
    let held = world
        .text(&format!(
            "SELECT string_agg(a.attname, ' ' ORDER BY a.attname)
             FROM (SELECT unnest(t.tgattr) AS number, t.tgrelid {of_trigger}) AS t
             JOIN pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = t.number"
        ))
        .await;
    let read = world
        .text(&format!(
            "SELECT string_agg(DISTINCT m[1], ' ' ORDER BY m[1]) FROM
                 (SELECT regexp_matches(p.prosrc, 'NEW\\.(\\w+)(?! *:=)\\M', 'g') AS m {of_trigger}) AS columns"
        ))
        .await;
    assert_eq!(held, read);
    for counted in ["next_run_at", "dispatch_lock_until", "fired_count", "active_dispatches", "last_status"] {
        assert!(!held.split(' ').any(|column| column == counted), "{counted} changes with every run");
    }
}
