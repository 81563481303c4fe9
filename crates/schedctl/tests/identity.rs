//! The first owner and key, created by `schedctl` in the database.

#![expect(clippy::unwrap_used, reason = "clippy does not see that everything in this file is test code")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use sched_model::domain::identity::{ApiKey, Permission};
use sched_model::identity::api_keys;
use sched_runtime::exit;
use test_support::{Finished, Process, TestDatabase};

const LIMIT: Duration = Duration::from_secs(60);

async fn schedctl(database: &TestDatabase, folder: &Path, arguments: &[&str]) -> Finished {
    let launch = Process::program("schedctl").current_dir(folder).env("DATABASE_URL", database.url());
    launch.args(arguments).run(LIMIT).await
}

fn ended(done: &Finished, code: u8) {
    assert_eq!(done.status.code(), Some(code.into()), "{}\n{}", done.stdout, done.stderr);
}

fn private(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_owner_gets_a_password_and_a_key_and_both_stand_in_the_audit_log() {
    let (database, folder) = (TestDatabase::new().await, tempfile::tempdir().unwrap());
    let here = folder.path();
    private(&here.join("password"), "correct horse battery\n", 0o600);
    let create = [
        "users",
        "create",
        "ada@example.com",
        "--role",
        "owner",
        "--system-operator",
        "--direct",
        "--password-file",
        "password",
    ];
    ended(&schedctl(&database, here, &create).await, exit::OK);
    let again = schedctl(&database, here, &create).await;
    ended(&again, exit::FAILURE);
    assert!(again.stderr.contains("this e-mail already"), "{}", again.stderr);

    let key =
        ["api-keys", "create", "first", "--user", "ada@example.com", "--direct", "--to-file", "ada.key"];
    let made = schedctl(&database, here, &key).await;
    ended(&made, exit::OK);
    let file = here.join("ada.key");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&file).unwrap();
    assert!(!made.stdout.contains(text.trim()) && !made.stderr.contains(text.trim()), "{}", made.stdout);
    ended(&schedctl(&database, here, &key).await, exit::USAGE);

    let shown = ApiKey::parse(text.trim()).unwrap();
    let mut conn = database.database().dedicated().await.unwrap();
    let found = api_keys::find(&mut conn, shown.prefix()).await.unwrap().unwrap();
    let permissions = found.verify(&shown, None).unwrap();
    assert!(permissions.has(Permission::MembersWrite) && permissions.has(Permission::SystemOperate));
    let client = database.client().await;
    let query = "SELECT string_agg(actor || ' ' || action, ', ' ORDER BY id) FROM audit_log";
    let actions: String = client.query_one(query, &[]).await.unwrap().get(0);
    assert_eq!(actions, "schedctl create_user, schedctl create_membership, schedctl create_api_key");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_gets_another_password_in_the_database_itself_and_loses_their_sessions() {
    use sched_model::domain::identity::verify_password;
    let (database, folder) = (TestDatabase::new().await, tempfile::tempdir().unwrap());
    let here = folder.path();
    let create = ["users", "create", "ada@example.com", "--role", "owner", "--no-password", "--direct"];
    ended(&schedctl(&database, here, &create).await, exit::OK);
    let client = database.client().await;
    let session = "INSERT INTO sessions (tenant_id, id, user_id, token_hash, idle_until, expires_at)
                   SELECT tenant_id, gen_random_uuid(), user_id, sha256('x'), now() + interval '1 h', now() + interval '1 h' FROM memberships";
    assert_eq!(client.execute(session, &[]).await.unwrap(), 1);
    private(&here.join("password"), "correct horse battery\n", 0o600);
    let set = |email| ["users", "set-password", email, "--password-file", "password", "--direct"];
    let done = schedctl(&database, here, &set("ADA@example.com")).await;
    ended(&done, exit::OK);
    assert!(done.stdout.contains("ada@example.com"), "{}", done.stdout);
    ended(&schedctl(&database, here, &set("nobody@example.com")).await, exit::FAILURE);
    let kept = "SELECT password_hash, (SELECT count(*) FROM sessions),
                       (SELECT count(*) FROM audit_log WHERE action = 'set_password' AND actor = 'schedctl') FROM users";
    let kept = client.query_one(kept, &[]).await.unwrap();
    let hash: String = kept.get(0);
    assert_eq!(verify_password(&"correct horse battery".to_owned().into(), &hash), Ok(true));
    assert_eq!((kept.get::<_, i64>(1), kept.get::<_, i64>(2)), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_that_others_may_read_or_that_is_too_short_makes_no_user() {
    let (database, folder) = (TestDatabase::new().await, tempfile::tempdir().unwrap());
    let here = folder.path();
    private(&here.join("open"), "correct horse battery", 0o644);
    private(&here.join("short"), "short", 0o600);
    for (file, part) in [("open", "chmod 600"), ("short", "12 characters"), ("none", "none")] {
        let create = ["users", "create", "ada@example.com", "--direct", "--password-file", file];
        let done = schedctl(&database, here, &create).await;
        ended(&done, exit::USAGE);
        assert!(done.stderr.contains(part), "{}", done.stderr);
    }
    let count = database.client().await.query_one("SELECT count(*) FROM users", &[]).await.unwrap();
    assert_eq!(count.get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_gets_a_key_of_its_own_that_needs_scopes() {
    let (database, folder) = (TestDatabase::new().await, tempfile::tempdir().unwrap());
    let here = folder.path();
    ended(&schedctl(&database, here, &["tenants", "create", "acme", "--direct"]).await, exit::OK);
    let of_tenant = ["api-keys", "create", "bot", "--of-tenant", "--tenant", "acme", "--direct"];
    ended(&schedctl(&database, here, &of_tenant).await, exit::USAGE);
    let scoped = [&of_tenant[..], &["--scope", "jobs:trigger", "-o", "json"]].concat();
    let made = schedctl(&database, here, &scoped).await;
    ended(&made, exit::OK);
    let made: serde_json::Value = serde_json::from_str(&made.stdout).unwrap();
    assert_eq!(made.get("scopes").unwrap(), &serde_json::json!(["jobs:trigger"]));
    ApiKey::parse(made.get("key").unwrap().as_str().unwrap()).unwrap();
    let unknown = ["api-keys", "create", "x", "--user", "nobody@example.com", "--direct"];
    ended(&schedctl(&database, here, &unknown).await, exit::FAILURE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_made_beside_dev_is_one_that_the_api_of_dev_takes() {
    use sched_model::domain::secret::{KEY_BYTES, SecretKeys, key_line};
    use secrecy::ExposeSecret as _;
    let (database, folder) = (TestDatabase::new().await, tempfile::tempdir().unwrap());
    let here = folder.path();
    let dev = here.join(".sched");
    fs::create_dir(&dev).unwrap();
    let described = format!("api_url = \"http://127.0.0.1:1\"\ndatabase_url = {:?}\n", database.url());
    private(&dev.join("dev.toml"), &described, 0o600);
    let line = key_line("dev-1", &[7; KEY_BYTES]);
    private(&dev.join("secrets.key"), line.expose_secret(), 0o600);
    let ring = SecretKeys::parse(line.expose_secret()).unwrap();

    let beside = async |arguments: &[&str], variable: Option<(&str, &str)>| {
        let launch = Process::program("schedctl").current_dir(here).args(arguments);
        let launch = match variable {
            Some((name, value)) => launch.env(name, value),
            None => launch,
        };
        launch.run(LIMIT).await
    };
    ended(
        &beside(
            &["users", "create", "eve@example.com", "--role", "viewer", "--no-password", "--direct"],
            None,
        )
        .await,
        exit::OK,
    );
    let mut conn = database.database().dedicated().await.unwrap();
    for (file, variable, environment, has_ring) in [
        ("dev.key", None, "dev", true),
        ("staging.key", Some(("API_KEY_ENVIRONMENT", "staging")), "staging", true),
        ("empty.key", Some(("API_KEY_ENVIRONMENT", "")), "dev", true),
        ("live.key", Some(("DATABASE_URL", database.url())), "live", false),
    ] {
        let create = ["api-keys", "create", file, "--user", "eve@example.com", "--direct", "--to-file", file];
        ended(&beside(&create, variable).await, exit::OK);
        let text = fs::read_to_string(here.join(file)).unwrap();
        assert!(text.starts_with(&format!("sched_{environment}_")), "{file}: {text}");
        let shown = ApiKey::parse(text.trim()).unwrap();
        let found = api_keys::find(&mut conn, shown.prefix()).await.unwrap().unwrap();
        assert_eq!(found.verify(&shown, None).is_ok(), !has_ring, "{file}");
        assert!(found.verify(&shown, Some(&ring)).is_ok(), "{file}");
    }
}
