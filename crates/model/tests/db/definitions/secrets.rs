//! Secrets: writes, reads, rejected deletions, and key rotation.

use std::collections::BTreeSet;

use sched_model::definitions::functions::{self, Change};
use sched_model::definitions::secrets::{
    self, DeleteError, NewValue, PutError, ROTATION_PAGE, RotatedPage, SavedSecret, SealedSecret,
};
use sched_model::domain::ids::{JobId, ProjectId, TenantId};
use sched_model::domain::secret::{KEY_BYTES, OpenError, SecretKeys, SecretPlace, SecretValue, key_line};
use sched_model::{Conn, transact};
use secrecy::ExposeSecret as _;
use serde_json::json;
use test_support::fixture::{Fixture, TENANT, function, settings};
use uuid::Uuid;

fn keys(ids: &[&str]) -> SecretKeys {
    let line = |id: &&str| {
        let byte = id.bytes().fold(0_u8, u8::wrapping_add);
        key_line(id, &[byte; KEY_BYTES]).expose_secret().to_owned()
    };
    SecretKeys::parse(&ids.iter().map(line).collect::<String>()).unwrap()
}

fn place(name: &str) -> SecretPlace<'_> {
    SecretPlace { tenant: TENANT, project: None, name }
}

async fn put(world: &Fixture, place: SecretPlace<'_>, value: &str, keys: &SecretKeys) -> SavedSecret {
    let value = SecretValue::new(value.to_owned().into()).unwrap();
    let mut conn = world.conn().await;
    transact(&mut conn, "test_put", async |conn: &mut Conn| {
        secrets::put(conn, NewValue { place, value: &value, source: "tests" }, keys).await
    })
    .await
    .unwrap()
}

async fn delete(world: &Fixture, name: &str, even_if_named: bool) -> Result<bool, DeleteError> {
    let mut conn = world.conn().await;
    let deleted = transact(&mut conn, "test_delete", async |conn: &mut Conn| {
        secrets::delete(conn, place(name), even_if_named).await
    })
    .await?;
    Ok(deleted.is_some())
}

/// The secrets that an attempt of the job gets under these names.
async fn sealed(world: &Fixture, tenant: TenantId, job: JobId, names: &[&str]) -> Vec<SealedSecret> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    secrets::of_attempt(&mut world.conn().await, tenant, job, &names).await.unwrap()
}

/// The names and the values of these secrets.
fn opened(sealed: &[SealedSecret], keys: &SecretKeys) -> Vec<(String, Result<String, OpenError>)> {
    let open = |secret: &SealedSecret| {
        let value = secret.open(keys).map(|value| value.into_inner().expose_secret().to_owned());
        (secret.name.clone(), value)
    };
    sealed.iter().map(open).collect()
}

async fn project(world: &Fixture, name: &str) -> ProjectId {
    let id = world
        .text(&format!(
            "WITH made AS (INSERT INTO projects (tenant_id, name, display_name) VALUES ('{TENANT}', '{name}', '{name}')
                           ON CONFLICT DO NOTHING RETURNING id)
             SELECT id FROM made UNION ALL SELECT id FROM projects WHERE tenant_id = '{TENANT}' AND name = '{name}' LIMIT 1"
        ))
        .await;
    ProjectId(id.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_has_a_version_and_a_nonce() {
    let world = Fixture::new().await;
    let keys = keys(&["a"]);
    let created = put(&world, place("token"), "canary-1", &keys).await;
    assert_eq!((created.change, created.secret.version), (Change::Created, 1));
    let first = world.text("SELECT encode(nonce || ciphertext, 'hex') FROM secrets").await;
    let again = put(&world, place("token"), "canary-1", &keys).await;
    assert_eq!((again.change, again.secret.version), (Change::Updated, 2));
    assert_eq!((again.secret.id, again.secret.created_at), (created.secret.id, created.secret.created_at));
    assert!(again.secret.updated_at > created.secret.updated_at);
    let second = world.text("SELECT encode(nonce || ciphertext, 'hex') FROM secrets").await;
    assert_ne!(first, second, "equal values have different ciphertexts");
    let clear: String = "canary-1".bytes().map(|byte| format!("{byte:02x}")).collect();
    assert!(!first.contains(&clear) && !second.contains(&clear));
    assert_eq!(world.number("SELECT count(*) FROM secrets").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_writers_create_two_versions_of_one_secret() {
    let world = Fixture::new().await;
    let keys = keys(&["a"]);
    let (one, two) =
        tokio::join!(put(&world, place("token"), "one", &keys), put(&world, place("token"), "two", &keys));
    let versions = BTreeSet::from([one.secret.version, two.secret.version]);
    assert_eq!(versions, BTreeSet::from([1, 2]));
    assert_eq!(one.secret.id, two.secret.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn project_secret_precedes_tenant_secret() {
    let world = Fixture::new().await;
    let keys = keys(&["a"]);
    let job = world.job("job").save().await.id;
    let own = project(&world, "default").await;
    let other = project(&world, "other").await;
    put(&world, place("both"), "tenant", &keys).await;
    put(&world, SecretPlace { project: Some(own), ..place("both") }, "project", &keys).await;
    put(&world, place("wide"), "wide", &keys).await;
    put(&world, SecretPlace { project: Some(other), ..place("wide") }, "not ours", &keys).await;
    put(&world, SecretPlace { project: Some(other), ..place("foreign") }, "not ours", &keys).await;
    let found = opened(&sealed(&world, TENANT, job, &["both", "wide", "foreign", "none"]).await, &keys);
    assert_eq!(found, [("both".into(), Ok("project".into())), ("wide".into(), Ok("wide".into()))]);
    assert!(sealed(&world, TENANT, JobId(Uuid::new_v4()), &["both"]).await.is_empty());
    assert!(sealed(&world, TenantId(Uuid::new_v4()), job, &["both"]).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_secret_value_does_not_open() {
    let world = Fixture::new().await;
    let keys = keys(&["a"]);
    let job = world.job("job").save().await.id;
    put(&world, place("high"), "high", &keys).await;
    put(&world, place("low"), "low", &keys).await;
    world
        .sql(
            "UPDATE secrets s SET nonce = o.nonce, ciphertext = o.ciphertext FROM secrets o
             WHERE s.name <> o.name",
        )
        .await;
    let found = opened(&sealed(&world, TENANT, job, &["high", "low"]).await, &keys);
    let refused = Err(OpenError::Refused { key_id: "a".into() });
    assert_eq!(found, [("high".into(), refused.clone()), ("low".into(), refused.clone())]);
    put(&world, place("low"), "low", &keys).await;
    world.sql("UPDATE secrets SET version = version + 1 WHERE name = 'low'").await;
    assert_eq!(opened(&sealed(&world, TENANT, job, &["low"]).await, &keys), [("low".into(), refused)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_listed_by_name_and_project() {
    let world = Fixture::new().await;
    let keys = keys(&["a"]);
    let other = project(&world, "other").await;
    for name in ["c", "a", "b"] {
        put(&world, place(name), "x", &keys).await;
    }
    put(&world, SecretPlace { project: Some(other), ..place("b") }, "x", &keys).await;
    let mut conn = world.conn().await;
    let mut seen = Vec::new();
    let mut after = (String::new(), String::new());
    loop {
        let page = secrets::list(&mut conn, TENANT, (&after.0, &after.1), 2).await.unwrap();
        let Some((last, project)) = page.last() else { break };
        after = (last.name.clone(), project.clone().unwrap_or_default());
        seen.extend(page.into_iter().map(|(secret, project)| (secret.name, project)));
    }
    let expected = [("a", None), ("b", None), ("b", Some("other")), ("c", None)];
    let expected: Vec<(String, Option<String>)> =
        expected.iter().map(|(name, project)| ((*name).to_owned(), project.map(str::to_owned))).collect();
    assert_eq!(seen, expected);
    assert!(secrets::list(&mut conn, TenantId(Uuid::new_v4()), ("", ""), 9).await.unwrap().is_empty());
    let names = BTreeSet::from(["a", "b", "x", "y"]);
    assert_eq!(secrets::unknown_names(&mut conn, TENANT, names).await.unwrap(), BTreeSet::from(["x", "y"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_in_use_is_deleted_only_by_force() {
    let world = Fixture::new().await;
    let keys = keys(&["a"]);
    put(&world, place("token"), "x", &keys).await;
    put(&world, place("free"), "x", &keys).await;
    let mut conn = world.conn().await;
    for (name, config) in [
        ("uses", json!({"program": "x", "env": {"A": {"secret": "token"}}})),
        ("asks", json!({"handler": "x", "secrets": ["token"]})),
        ("only-called-so", json!({"program": "x", "env": {"secret": "token"}, "args": ["token"]})),
    ] {
        let mut settings = function(name);
        settings.handler_config = config;
        functions::save(&mut conn, TENANT, &settings).await.unwrap();
    }
    let refused = delete(&world, "token", false).await.unwrap_err();
    let DeleteError::InUse { functions, more } = refused else { panic!("{refused}") };
    assert_eq!((functions, more), (vec!["asks".to_owned(), "uses".to_owned()], false));
    assert!(delete(&world, "free", false).await.unwrap());
    assert!(!delete(&world, "free", false).await.unwrap());
    assert!(delete(&world, "token", true).await.unwrap());
    assert_eq!(world.number("SELECT count(*) FROM secrets").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_reseals_every_readable_secret() {
    let world = Fixture::new().await;
    let (old, lost) = (keys(&["old"]), keys(&["lost"]));
    let job = world.save(&settings("job")).await.job.id;
    for number in 0..ROTATION_PAGE + 1 {
        put(&world, place(&format!("s{number}")), &format!("value-{number}"), &old).await;
    }
    put(&world, place("gone"), "x", &lost).await;
    let both = keys(&["new", "old"]);
    put(&world, place("fresh"), "x", &both).await;
    let before =
        world.text("SELECT string_agg(name || version || updated_at, ',' ORDER BY name) FROM secrets").await;
    let (mut resealed, mut unreadable, mut after) = (0, Vec::new(), None);
    loop {
        let mut conn = world.conn().await;
        let page: Result<RotatedPage, PutError> =
            transact(&mut conn, "test_rotate", async |conn: &mut Conn| {
                secrets::rotate_page(conn, &both, after).await
            })
            .await;
        let page = page.unwrap();
        resealed += page.resealed;
        unreadable.extend(page.unreadable);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(i64::try_from(resealed).unwrap(), ROTATION_PAGE + 1);
    let unknown = OpenError::UnknownKey { key_id: "lost".into() };
    assert_eq!(unreadable, [(TENANT, "gone".to_owned(), unknown)]);
    let after =
        world.text("SELECT string_agg(name || version || updated_at, ',' ORDER BY name) FROM secrets").await;
    assert_eq!(after, before, "a rotation is no new value");
    assert_eq!(world.number("SELECT count(*) FROM secrets WHERE key_id = 'old'").await, 0);
    let new = keys(&["new"]);
    let found = opened(&sealed(&world, TENANT, job, &["s0", "s50", "fresh"]).await, &new);
    let value = |name: &str, value: &str| (name.to_owned(), Ok(value.to_owned()));
    assert_eq!(found, [value("fresh", "x"), value("s0", "value-0"), value("s50", "value-50")]);
}
