//! The example environments in `deploy/env` are complete and accepted.

use std::path::Path;
use std::time::Duration;

use test_support::Process;

const LIMIT: Duration = Duration::from_secs(60);

/// The variables of an example, including commented ones: each stands alone as `NAME=value`.
fn variables(daemon: &str) -> Vec<(String, String)> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../deploy/env/{daemon}.env"));
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().map(|line| line.strip_prefix('#').unwrap_or(line));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .filter(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn example_environments_list_every_variable_and_are_accepted() {
    for daemon in ["api", "scheduler", "worker"] {
        let program = format!("sched-{daemon}");
        let listed = variables(daemon);
        let help = Process::program(&program).arg("--help").run(LIMIT).await.stdout;
        // Wrapped lines may break between `env:` and the name.
        let words: Vec<&str> = help.split_whitespace().collect();
        let known: Vec<&str> = words
            .windows(2)
            .filter(|pair| pair[0] == "[env:")
            .map(|pair| pair[1].trim_end_matches([']', '=']))
            .collect();
        assert!(known.len() > 8, "{daemon}: {known:?}");
        for name in &known {
            assert!(
                listed.iter().any(|(listed, _)| listed == name),
                "{name} is missing in deploy/env/{daemon}.env"
            );
        }
        let check = Process::program(&program).arg("--check-config");
        // All but the first two exclude another setting of the example.
        let files = [
            "SCHED_CONFIG",
            "DATABASE_CA_FILE",
            "JWT_SECRET_FILE",
            "DATABASE_URL_FILE",
            "HEARTBEAT_URL_FILE",
        ];
        let check = listed
            .iter()
            .filter(|(name, _)| !files.contains(&name.as_str()))
            .fold(check, |check, (name, value)| check.env(name, value));
        let done = check.run(LIMIT).await;
        assert!(done.status.success(), "{daemon}: {}", done.stderr);
        assert!(!done.stdout.contains("change-me"), "the password is shown: {}", done.stdout);
        for (name, _) in listed.iter().filter(|(name, _)| !files.contains(&name.as_str())) {
            assert!(
                done.stdout.contains(&format!("variable {name}")),
                "{name} of deploy/env/{daemon}.env is unknown: {}",
                done.stdout
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_daemons_share_have_the_same_default() {
    let default = async |daemon: &str, name: &str| {
        let help = Process::program(&format!("sched-{daemon}")).arg("--help").run(LIMIT).await.stdout;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let (_, after) = help.split_once(&format!("[env: {name}] [default: ")).unwrap_or_else(|| {
            panic!("sched-{daemon} has no default of {name}: {help}");
        });
        after.split_once(']').unwrap().0.to_owned()
    };
    for (name, daemons) in [
        ("WORKER_OFFLINE_THRESHOLD", &["api", "worker"][..]),
        ("MAX_RETRY_ATTEMPTS", &["api", "worker"]),
        ("JOB_TIMEOUT_THRESHOLD", &["api"]),
    ] {
        let expected = default("scheduler", name).await;
        for daemon in daemons {
            assert_eq!(default(daemon, name).await, expected, "{name} of sched-{daemon}");
        }
    }
}
