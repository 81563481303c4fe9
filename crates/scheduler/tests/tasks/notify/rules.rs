//! Which events a rule reports, and how often.

use sched_model::domain::attempt::AttemptOutcome;
use sched_model::running::attempts::OutputChunk;
use sched_scheduler::tasks::notify::Notify;
use test_support::fixture::ended;

use super::{ends, happens, leader, messages, rule, settle, settle_with};

#[tokio::test(flavor = "multi_thread")]
async fn each_occasion_is_told_by_the_rules_that_ask_for_it() {
    let leader = leader().await;
    rule(&leader, "all", "failure,dead_letter,missed,recovery", ("", "")).await;
    rule(&leader, "bad", "failure", ("", "")).await;
    rule(&leader, "dead", "dead_letter", ("", "")).await;
    ends(&leader, "nightly", "COMPLETED").await;
    ends(&leader, "nightly", "PENDING").await;
    settle(&leader).await;
    assert_eq!(messages(&leader).await, Vec::<String>::new(), "neither a success nor a retry");

    ends(&leader, "nightly", "FAILED").await;
    ends(&leader, "hourly", "DEAD_LETTER").await;
    ends(&leader, "hourly", "CANCELLED").await;
    settle(&leader).await;
    let failures = [
        "(all,failure,nightly)",
        "(bad,failure,nightly)",
        "(all,dead_letter,hourly)",
        "(bad,failure,hourly)",
    ];
    let mut expected: Vec<&str> = failures.to_vec();
    expected.push("(dead,dead_letter,hourly)");
    assert_eq!(messages(&leader).await, expected);

    happens(&leader, "nightly", "schedule_execution_lost", r#"{"dispatch_status": "TIMEOUT"}"#).await;
    happens(
        &leader,
        "nightly",
        "run_missed",
        r#"{"first_fire_at": "2026-01-01T00:00:00Z", "fire_count": 3}"#,
    )
    .await;
    happens(&leader, "hourly", "dispatch_expired", r#"{"reason": "nobody began it"}"#).await;
    settle(&leader).await;
    expected.extend([
        "(all,failure,nightly)",
        "(bad,failure,nightly)",
        "(all,missed,nightly)",
        "(all,missed,hourly)",
    ]);
    assert_eq!(messages(&leader).await, expected);

    // Only the first success after a failure is a recovery; a cancelled run in between is none.
    ends(&leader, "nightly", "CANCELLED").await;
    ends(&leader, "nightly", "COMPLETED").await;
    ends(&leader, "nightly", "COMPLETED").await;
    ends(&leader, "hourly", "COMPLETED").await;
    settle(&leader).await;
    expected.extend(["(all,recovery,nightly)", "(all,recovery,hourly)"]);
    assert_eq!(messages(&leader).await, expected);

    // Only a job disabled by the scheduler counts as a failure.
    happens(&leader, "nightly", "job_disabled", r#"{"job_name": "nightly", "reason": "no such zone"}"#).await;
    happens(&leader, "hourly", "job_disabled", r#"{"job_name": "hourly", "reason": null, "by": "ann"}"#)
        .await;
    settle(&leader).await;
    ends(&leader, "nightly", "COMPLETED").await;
    ends(&leader, "hourly", "COMPLETED").await;
    settle(&leader).await;
    expected.extend(["(all,failure,nightly)", "(bad,failure,nightly)", "(all,recovery,nightly)"]);
    assert_eq!(messages(&leader).await, expected);
    let why = "SELECT DISTINCT body ->> 'error' FROM notification_deliveries WHERE body ->> 'error' LIKE 'no such%'";
    assert_eq!(leader.records(why).await, ["(\"no such zone\")"]);

    let body = "SELECT body ->> 'type', body ->> 'tenant', body ->> 'status', body ->> 'attempt', body ->> 'error', body ->> 'held_back',
                       body ->> 'id' = id::text, body ->> 'rule', body ? 'project', body ->> 'job_id' = job_id::text
                FROM notification_deliveries WHERE rule_name = 'bad' ORDER BY event_id LIMIT 1";
    assert_eq!(leader.records(body).await, ["(failure,default,failed,2,\"exit code 3\",0,t,bad,t,t)"]);
    let forms = "SELECT DISTINCT body ? 'dispatch_id', body ->> 'at' ~ '^[-0-9]{10}T[0-9:]{8}[.][0-9]{6}Z$', body ->> 'fire_time'
                 FROM notification_deliveries WHERE kind = 'missed' AND body ->> 'job' = 'nightly'";
    assert_eq!(leader.records(forms).await, ["(f,t,2026-01-01T00:00:00.000000Z)"]);
}

/// The failure is in no event of the table `events`: as in production, only history has it.
#[tokio::test(flavor = "multi_thread")]
async fn success_after_a_failure_in_history_is_a_recovery() {
    let leader = leader().await;
    rule(&leader, "all", "recovery", ("", "")).await;
    for (job, table) in [("nightly", "job_execution_log"), ("hourly", "maintenance.job_execution_log")] {
        leader
            .sql(&format!(
                "INSERT INTO {table} (id, tenant_id, job_id, dispatch_id, attempt, status, scheduled_for, started_at,
                                      completed_at, duration_ms, claim_token, triggered_by)
                 SELECT gen_random_uuid(), tenant_id, id, gen_random_uuid(), 1, 'FAILED', now(), now(), now(), 0, 1, 'schedule'
                 FROM scheduled_jobs WHERE name = '{job}'"
            ))
            .await;
        ends(&leader, job, "COMPLETED").await;
    }
    settle(&leader).await;
    assert_eq!(messages(&leader).await, ["(all,recovery,nightly)", "(all,recovery,hourly)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_is_about_its_job_its_project_and_what_happens_while_it_is_active() {
    let leader = leader().await;
    ends(&leader, "nightly", "FAILED").await;
    let of_job = "(SELECT id FROM scheduled_jobs WHERE name = 'hourly')";
    rule(&leader, "job", "failure", (", job_id", &format!(", {of_job}"))).await;
    rule(&leader, "project", "failure", (", project_id", ", (SELECT id FROM projects)")).await;
    leader
        .sql("INSERT INTO projects (tenant_id, name, display_name) SELECT id, 'other', 'Other' FROM tenants")
        .await;
    let other = "(SELECT id FROM projects WHERE name = 'other')";
    rule(&leader, "other", "failure", (", project_id", &format!(", {other}"))).await;
    rule(&leader, "off", "failure", (", is_active", ", false")).await;
    rule(&leader, "later", "failure", (", active_since", ", now() + interval '1 hour'")).await;
    ends(&leader, "hourly", "FAILED").await;
    ends(&leader, "nightly", "FAILED").await;
    settle(&leader).await;
    assert_eq!(
        messages(&leader).await,
        ["(job,failure,hourly)", "(project,failure,hourly)", "(project,failure,nightly)"],
        "no event from before the rules"
    );
    leader.sql("UPDATE notification_channels SET is_active = false").await;
    ends(&leader, "hourly", "FAILED").await;
    settle(&leader).await;
    assert_eq!(messages(&leader).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_one_tenant_tell_nothing_of_another() {
    let leader = leader().await;
    leader
        .sql(
            "INSERT INTO tenants (slug, name) VALUES ('other', 'Other');
             INSERT INTO notification_channels (tenant_id, name, kind, url)
                 SELECT id, 'theirs', 'webhook', 'https://example.com/' FROM tenants WHERE slug = 'other';
             INSERT INTO notification_rules (tenant_id, name, channel_id, kinds)
                 SELECT tenant_id, 'theirs', id, '{failure}' FROM notification_channels WHERE name = 'theirs'",
        )
        .await;
    rule(&leader, "ours", "failure", ("", "")).await;
    ends(&leader, "nightly", "FAILED").await;
    settle(&leader).await;
    assert_eq!(messages(&leader).await, ["(ours,failure,nightly)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_back_is_counted_in_the_next_message() {
    let leader = leader().await;
    rule(&leader, "calm", "failure", (", min_interval_seconds", ", 3600")).await;
    for _ in 0..3 {
        ends(&leader, "nightly", "FAILED").await;
    }
    ends(&leader, "hourly", "FAILED").await;
    settle(&leader).await;
    ends(&leader, "nightly", "FAILED").await;
    settle(&leader).await;
    assert_eq!(messages(&leader).await, ["(calm,failure,nightly)", "(calm,failure,hourly)"]);
    leader.sql("UPDATE notification_holds SET told_at = told_at - interval '1 hour'").await;
    ends(&leader, "nightly", "FAILED").await;
    settle(&leader).await;
    let counts = "SELECT held_back, body ->> 'held_back' FROM notification_deliveries
                  WHERE body ->> 'job' = 'nightly' ORDER BY event_transaction_id, event_id";
    assert_eq!(leader.records(counts).await, ["(0,0)", "(3,3)"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_has_the_last_output_and_the_url_of_its_run() {
    let leader = leader().await;
    rule(&leader, "bad", "failure", ("", "")).await;
    leader.job_with_runs("dump", 2).await;
    let claimed = leader.claim_as_new_worker(2).await;
    for (claimed, streams) in claimed.iter().zip([&["stdout", "stderr"][..], &["stdout", "log"][..]]) {
        let end = ended(claimed, AttemptOutcome::Failed).max_attempts(1).record(|record| {
            let chunk = |&stream: &&'static str| OutputChunk {
                stream,
                chunk: 0,
                content: format!("begin\nlast line of {stream}\n"),
                dropped_bytes: 0,
            };
            record.output = streams.iter().map(chunk).collect();
        });
        assert_eq!(leader.end(&[end.build()], &[]).await.len(), 1);
    }
    let url = Some("https://sched.example.com".to_owned());
    settle_with(&leader, &mut Notify::new(leader.scope.clone()).with_public_url(url)).await;
    let bodies = "SELECT body ->> 'output_tail', body ->> 'status',
                         body ->> 'url' = 'https://sched.example.com/api/v1/runs/' || subject_dispatch_id,
                         body ->> 'run_id' = subject_dispatch_id::text, body ? 'attempt_id'
                  FROM notification_deliveries ORDER BY body ->> 'output_tail'";
    assert_eq!(
        leader.rows(bodies).await,
        [
            ["begin\nlast line of log", "failed", "t", "t", "t"],
            ["begin\nlast line of stderr", "failed", "t", "t", "t"],
        ]
    );
}
