use std::collections::BTreeMap;
use std::os::fd::AsRawFd;

use sched_worker::handlers::{ErrorClass, RetryHint, RunDetails, Upstream};
use serde_json::json;

use crate::support::{Bench, execution, run, run_shell, shell};

const ALWAYS: [&str; 19] = [
    "LANG",
    "PATH",
    "SCHED_ARGS_FILE",
    "SCHED_ATTEMPT",
    "SCHED_ATTEMPT_ID",
    "SCHED_CATCHUP",
    "SCHED_FIRE_TIME",
    "SCHED_IDEMPOTENCY_KEY",
    "SCHED_JOB_ID",
    "SCHED_JOB_NAME",
    "SCHED_LATENESS_MS",
    "SCHED_PROGRESS_FILE",
    "SCHED_RESULT_FILE",
    "SCHED_RUN_ID",
    "SCHED_TENANT_ID",
    "SCHED_TIMEOUT_SECONDS",
    "SCHED_TRIGGER",
    "SCHED_WORKER_PROCESS",
    "TMPDIR",
];

fn parsed(output: &str) -> BTreeMap<String, String> {
    let pairs = output.lines().map(|line| line.split_once('=').unwrap());
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn environment_is_exactly_as_documented() {
    let foreign = std::env::vars_os().filter(|(name, _)| !ALWAYS.contains(&name.to_str().unwrap())).count();
    assert!(foreign > 0, "this process must have variables that could leak");
    let bench = Bench::inheriting(&[
        ("DATABASE_URL", "postgres://canary"),
        ("CANARY", "canary"),
        ("PATH", "/canary"),
    ]);
    let report = bench.run(execution(json!({"program": "env"}))).await;
    let seen = parsed(&report.stdout.head);
    assert_eq!(seen.keys().map(String::as_str).collect::<Vec<_>>(), ALWAYS);
    assert!(!report.stdout.head.contains("canary"));
    assert_eq!(seen["PATH"], "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
}

#[tokio::test]
async fn environment_describes_the_attempt() {
    let mut execution = execution(json!({"program": "env"}));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    execution.traceparent = Some(trace.to_owned());
    let id = execution.attempt_id.to_string();
    execution.project_id = Some(uuid::Uuid::from_u128(0xc));
    execution.details = Some(Box::new(RunDetails {
        tenant: "acme".into(),
        project: Some("billing".into()),
        queue: "mail".into(),
        user: Some("ann@example.com".into()),
        schedule: Some("0 2 * * *".into()),
    }));
    let seen = parsed(&Bench::new().run(execution).await.stdout.head);
    let expected = [
        ("SCHED_JOB_ID", "00000000-0000-0000-0000-00000000000b"),
        ("SCHED_JOB_NAME", "nightly report"),
        ("SCHED_RUN_ID", "00000000-0000-0000-0000-00000000000d"),
        ("SCHED_ATTEMPT_ID", id.as_str()),
        ("SCHED_ATTEMPT", "2"),
        ("SCHED_FIRE_TIME", "2026-11-21T04:05:06.789Z"),
        ("SCHED_LATENESS_MS", "42"),
        ("SCHED_CATCHUP", "1"),
        ("SCHED_IDEMPOTENCY_KEY", "key-1"),
        ("SCHED_TIMEOUT_SECONDS", "60"),
        ("SCHED_TENANT_ID", "00000000-0000-0000-0000-00000000000a"),
        ("SCHED_TENANT", "acme"),
        ("SCHED_PROJECT_ID", "00000000-0000-0000-0000-00000000000c"),
        ("SCHED_PROJECT", "billing"),
        ("SCHED_QUEUE", "mail"),
        ("SCHED_TRIGGER", "api"),
        ("SCHED_TRIGGER_USER", "ann@example.com"),
        ("SCHED_SCHEDULE", "0 2 * * *"),
        ("TRACEPARENT", trace),
    ];
    for (name, value) in expected {
        assert_eq!(seen[name], value, "{name}");
    }
}

#[tokio::test]
async fn dependent_receives_the_run_that_it_follows() {
    let mut execution = execution(shell("env; cat \"$SCHED_UPSTREAM_RESULT_FILE\""));
    let upstream = |result| {
        Some(Box::new(Upstream {
            run_id: uuid::Uuid::from_u128(0xe),
            job: "load".into(),
            status: "succeeded",
            result,
        }))
    };
    execution.upstream = upstream(Some(json!({"rows": 3})));
    let output = Bench::new().run(execution.clone()).await.stdout.head;
    for expected in [
        "SCHED_UPSTREAM_RUN_ID=00000000-0000-0000-0000-00000000000e",
        "SCHED_UPSTREAM_JOB=load",
        "SCHED_UPSTREAM_STATUS=succeeded",
        "{\"rows\":3}",
    ] {
        assert!(output.contains(expected), "{expected} is missing in {output}");
    }
    execution.attempt_id = uuid::Uuid::new_v4();
    execution.upstream = upstream(None);
    let output = Bench::new().run(execution).await.stdout.head;
    assert!(!output.contains("SCHED_UPSTREAM_RESULT_FILE"), "{output}");
}

#[tokio::test]
async fn function_variables_override_inherited_ones() {
    let bench = Bench::inheriting(&[("HOME", "/home/worker"), ("TZ", "UTC"), ("OTHER", "canary")]);
    let config = json!({
        "program": "env", "env_allow": ["HOME", "TZ", "UNSET"], "env": {"TZ": "Asia/Tokyo", "GREETING": "a=b"}
    });
    let seen = parsed(&bench.run(execution(config)).await.stdout.head);
    assert_eq!((seen["HOME"].as_str(), seen["TZ"].as_str()), ("/home/worker", "Asia/Tokyo"));
    assert_eq!(seen["GREETING"], "a=b");
    assert_eq!(seen.len(), ALWAYS.len() + 3);
}

#[tokio::test]
async fn env_allow_refuses_settings_of_the_worker() {
    let names = ["WORKER_SMTP_URL", "OTEL_EXPORTER_OTLP_HEADERS", "REDIS_URL"];
    let bench = Bench::inheriting(&names.map(|name| (name, "canary")));
    for name in names {
        let report = bench.run(execution(json!({"program": "env", "env_allow": [name]}))).await;
        assert_eq!(report.error_class, Some(ErrorClass::InvalidConfig), "{report:?}");
        let message = report.error_message.unwrap();
        assert!(
            message.contains(name) && message.contains("set ") && message.contains(" in env"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn env_allow_is_limited_by_the_operator() {
    let bench = Bench::allowing(&["TZ", "LC_ALL"], &[("TZ", "UTC"), ("PGHOST", "canary")]);
    let seen = bench.run(execution(json!({"program": "env", "env_allow": ["TZ"]}))).await;
    assert_eq!(parsed(&seen.stdout.head)["TZ"], "UTC");
    let refused = bench.run(execution(json!({"program": "env", "env_allow": ["PGHOST", "TZ"]}))).await;
    assert_eq!(refused.error_class, Some(ErrorClass::ProgramRefused), "{refused:?}");
    assert_eq!((refused.again, refused.started_after), (RetryHint::Never, None));
    let message = refused.error_message.unwrap();
    for part in ["\"PGHOST\"", "WORKER_ENV_ALLOW", "LC_ALL,TZ", "in env"] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[tokio::test]
async fn missing_secret_prevents_the_start() {
    let config = json!({"program": "env", "env": {"TOKEN": {"secret": "token"}, "PLAIN": "x"}});
    let mut execution = execution(config);
    let failed = Bench::new().run(execution.clone()).await;
    assert_eq!(failed.error_class, Some(ErrorClass::MissingSecret));
    assert!(failed.error_message.unwrap().contains("\"token\""));
    assert_eq!((failed.started_after, failed.stdout.total_bytes), (None, 0));
    execution.secrets = [("token".to_owned(), "hunter2".to_owned().into())].into_iter().collect();
    let seen = parsed(&Bench::new().run(execution).await.stdout.head);
    assert_eq!((seen["TOKEN"].as_str(), seen["PLAIN"].as_str()), ("hunter2", "x"));
}

#[tokio::test]
async fn program_inherits_three_open_files() {
    let leaky = nix::unistd::dup(std::io::stderr()).unwrap();
    let flags = nix::fcntl::fcntl(&leaky, nix::fcntl::FcntlArg::F_GETFD).unwrap();
    assert_eq!(
        flags & nix::libc::FD_CLOEXEC,
        0,
        "the planted descriptor must be one that would be inherited"
    );
    // The listing itself opens the directory, so each entry is checked again.
    let report = run_shell(r#"for f in /proc/$$/fd/*; do [ -e "$f" ] && echo "${f##*/}"; done; true"#).await;
    assert_eq!(report.stdout.head, "0\n1\n2\n", "descriptor {} was planted", leaky.as_raw_fd());
}

#[tokio::test]
async fn program_leads_its_own_session_and_group() {
    let report = run(json!({"shell": true, "command": "echo $$; cut -d' ' -f5,6 /proc/$$/stat"})).await;
    let (pid, group_and_session) = report.stdout.head.trim().split_once('\n').unwrap();
    assert_eq!(group_and_session, format!("{pid} {pid}"));
}
