//! Secrets reach the environment of a program from the command line, and nothing else.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use system_tests::Installation;
use test_support::Process;

const LIMIT: Duration = Duration::from_secs(60);
/// Every encoding changes some of these characters.
const CANARY: &str = "cänary/value+\"42\" &";

/// An installation with a key file and the finest log level.
async fn installation(folder: &Path) -> Installation {
    let keys = folder.join("keys");
    let made = Process::program("schedctl").args(["secrets", "keygen", "--file"]).arg(&keys).run(LIMIT).await;
    assert!(made.status.success(), "{}", made.stderr);
    let settings = [("SECRETS_KEY_FILE", keys.to_str().unwrap()), ("LOG_LEVEL", "trace")];
    let mut installation = Installation::new().await;
    installation.start_api_with(&settings).await;
    installation.start_scheduler(&[("LOG_LEVEL", "trace")]).await;
    installation.start_worker(&settings).await;
    installation
}

async fn set(installation: &Installation, folder: &Path, arguments: &[&str], value: &str) {
    let file = folder.join("value");
    std::fs::write(&file, value).unwrap();
    let file = file.to_str().unwrap();
    let done = installation.schedctl(&[&["secrets", "set", "--from-file", file], arguments].concat()).await;
    assert!(done.status.success(), "{}", done.stderr);
    assert!(!format!("{}{}", done.stdout, done.stderr).contains(value), "{}", done.stdout);
}

fn function(command: &str, env: &Value) -> Value {
    json!({
        "task_functions": [{
            "name": "command",
            "handler_type": "process",
            "handler_config": {"shell": true, "command": command, "env": env},
        }],
        "jobs": [{"name": "job", "function": "command", "job_type": "manual", "retry_policy": {"max_attempts": 1}}],
    })
}

async fn run(installation: &Installation) -> Value {
    let dispatch = installation.trigger("job").await;
    let ended = format!("SELECT count(*) FROM job_execution_log WHERE dispatch_id = '{dispatch}'");
    installation.wait_count("the attempt to end", &ended, 1).await;
    installation.get(&format!("/api/v1/attempts?run={dispatch}")).await["items"][0].clone()
}

async fn output(installation: &Installation, execution: &Value) -> String {
    let id = execution["id"].as_str().unwrap();
    installation.get(&format!("/api/v1/attempts/{id}/output")).await.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_reaches_its_program_and_appears_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let installation = installation(folder.path()).await;
    set(&installation, folder.path(), &["token"], CANARY).await;
    set(&installation, folder.path(), &["mine"], "value of the tenant").await;
    set(&installation, folder.path(), &["mine", "--project", "default"], "value of the project").await;
    let command = r#"
        printf '%s' "$TOKEN" | sha256sum; echo "out $TOKEN out"; echo "err $TOKEN" >&2; printf '%s' "$TOKEN" | base64
        printf '%s' "user:$TOKEN" | base64; printf '%s' "$MINE" | wc -c
        printf '{"token": ["%s"]}' 'c\u00e4nary/value+\"42\" &' > "$SCHED_RESULT_FILE"
        exit 3"#;
    let env = json!({"TOKEN": {"secret": "token"}, "MINE": {"secret": "mine"}});
    installation.apply(&function(command, &env)).await;

    let execution = run(&installation).await;
    let told = output(&installation, &execution).await;
    let expected =
        installation.text(&format!("SELECT encode(sha256(convert_to($v${CANARY}$v$, 'UTF8')), 'hex')")).await;
    assert!(told.contains(&expected), "the program did not get the value: {told}");
    assert!(told.contains("20\\n"), "the secret of the project must take precedence: {told}");
    assert!(told.contains("out [secret token] out") && told.contains("err [secret token]"), "{told}");
    assert_eq!(execution["result"], json!({"token": ["[secret token]"]}), "{execution}");

    // The rows are searched as text and as JSON, with the logs of the daemons.
    let escaped = CANARY.replace('"', "\\\"");
    let encoded: Vec<String> = [CANARY, &escaped]
        .iter()
        .map(|text| text.bytes().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let tables = installation.all_rows().await;
    assert!(tables.contains("[secret token]") && tables.contains("create_secret"), "the rows were seen");
    let mut logs = String::new();
    for process in installation.api.iter().chain(&installation.schedulers).chain(&installation.workers) {
        logs.push_str(&process.stdout());
        logs.push_str(&process.stderr());
    }
    assert!(logs.contains("secret written") && logs.contains("did not succeed"), "the logs were seen");
    for (place, text) in [("a table", &tables), ("a log", &logs)] {
        for form in [
            CANARY,
            &escaped,
            &encoded[0],
            &encoded[1],
            "cänary",
            "Y8OkbmFyeS92YWx1ZS",
            "value of the project",
        ] {
            assert!(!text.contains(form), "{form} is in {place}");
        }
    }
    installation.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_without_its_secret_fails_and_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut installation = installation(folder.path()).await;
    set(&installation, folder.path(), &["token"], CANARY).await;
    installation.apply(&function("true", &json!({"TOKEN": {"secret": "token"}}))).await;
    assert_eq!(run(&installation).await["status"], "succeeded");

    let held = installation.schedctl(&["secrets", "delete", "token"]).await;
    assert!(!held.status.success() && held.stderr.contains("command"), "{}", held.stderr);
    let deleted = installation.schedctl(&["secrets", "delete", "token", "--force"]).await;
    assert!(deleted.status.success(), "{}", deleted.stderr);
    let failed = run(&installation).await;
    assert_eq!(failed["error_class"], "missing_secret", "{failed}");
    assert!(failed["error_message"].as_str().unwrap().contains("\"token\""), "{failed}");

    set(&installation, folder.path(), &["token"], CANARY).await;
    let mut worker = installation.workers.remove(0);
    assert!(worker.stop_gracefully(LIMIT).await.success());
    installation.start_worker(&[]).await;
    let failed = run(&installation).await;
    assert_eq!(failed["error_class"], "secret_unreadable", "{failed}");
    assert!(failed["error_message"].as_str().unwrap().contains("SECRETS_KEY_FILE"), "{failed}");
    installation.check_invariants().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_refuse_a_key_file_that_others_can_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "k canary\n").unwrap();
    for (mode, expected) in [(0o644, "chmod 600"), (0o600, "line 1")] {
        std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(mode)).unwrap();
        for daemon in ["sched-api", "sched-worker"] {
            let started = Process::daemon(daemon)
                .env("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
                .env("API_PORT", "0")
                .env("SECRETS_KEY_FILE", &keys);
            let done = started.run(LIMIT).await;
            let told = format!("{}{}", done.stdout, done.stderr);
            assert_eq!(done.status.code(), Some(2), "{daemon}: {told}");
            assert!(told.contains(expected) && told.contains("SECRETS_KEY_FILE"), "{daemon}: {told}");
            assert!(!told.contains("canary"), "{daemon}: {told}");
        }
    }
}
