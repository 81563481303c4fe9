//! Keys, users, memberships and tenants.

use sched_model::domain::identity::{
    ApiKey, ID_BYTES, Permission, Permissions, Principal, Role, SECRET_BYTES, scopes_of,
};
use sched_model::domain::ids::{TenantId, UserId};
use sched_model::identity::api_keys::{
    self, ApiKeyRecord, FoundKey, KeyRefusal, NewApiKey, Revoked, Revoker,
};
use sched_model::identity::users::{self, MemberError, NewUser, SavedMember, UserRecord};
use sched_model::{Conn, DbError, PageRequest, identity::tenants, transact};
use secrecy::ExposeSecret as _;
use test_support::fixture::{Fixture, TENANT};

fn key(number: u8) -> ApiKey {
    ApiKey::new("test", [number; ID_BYTES], [number; SECRET_BYTES])
}

async fn user(world: &Fixture, email: &str) -> UserRecord {
    let new = NewUser { email, display_name: email, password_hash: None, is_system_operator: false };
    users::create(&mut world.conn().await, new).await.unwrap()
}

async fn put(world: &Fixture, email: &str, role: Role) -> Result<SavedMember, MemberError> {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_put_member", async |conn: &mut Conn| {
        users::put_member(conn, TENANT, email, role).await
    })
    .await
}

async fn remove(world: &Fixture, email: &str) -> Result<String, MemberError> {
    let mut conn = world.conn().await;
    transact(&mut conn, "test_remove_member", async |conn: &mut Conn| {
        users::remove_member(conn, TENANT, email).await
    })
    .await
    .map(|member| member.email)
}

async fn make(
    world: &Fixture,
    key: &ApiKey,
    user: Option<UserId>,
    scopes: Option<Permissions>,
) -> Result<ApiKeyRecord, DbError> {
    let hash = key.hash(None);
    let new = NewApiKey {
        tenant: TENANT,
        user,
        name: "a key",
        prefix: key.prefix(),
        hash: &hash,
        scopes,
        expires_at: None,
        source: "tests",
    };
    api_keys::create(&mut world.conn().await, new).await
}

async fn find(world: &Fixture, key: &ApiKey) -> Option<FoundKey> {
    api_keys::find(&mut world.conn().await, key.prefix()).await.unwrap()
}

async fn verify(world: &Fixture, key: &ApiKey) -> Result<Permissions, KeyRefusal> {
    find(world, key).await.unwrap().verify(key, None)
}

async fn keyed(world: &Fixture, email: &str, role: Role, number: u8) -> (UserRecord, ApiKey) {
    let (user, key) = (user(world, email).await, key(number));
    put(world, email, role).await.unwrap();
    make(world, &key, Some(user.id), None).await.unwrap();
    (user, key)
}

#[tokio::test(flavor = "multi_thread")]
async fn key_has_the_permissions_of_its_user() {
    let world = Fixture::new().await;
    let (_, key) = keyed(&world, "ada@example.com", Role::Admin, 1).await;
    let admin = Principal::Member { role: Role::Admin, is_system_operator: false };
    assert_eq!(verify(&world, &key).await, Ok(admin.permissions(None)));
    put(&world, "bea@example.com", Role::Owner).await.unwrap_err();
    put(&world, "ADA@example.com", Role::Viewer).await.unwrap();
    let viewer = Principal::Member { role: Role::Viewer, is_system_operator: false };
    assert_eq!(verify(&world, &key).await, Ok(viewer.permissions(None)));
    world.sql("UPDATE users SET is_system_operator = true").await;
    assert!(verify(&world, &key).await.unwrap().has(Permission::SystemOperate));

    let secret = key.text().expose_secret();
    let kept = world.text("SELECT (SELECT string_agg(k::text, '') FROM api_keys k)").await;
    assert!(!kept.contains(secret.get(28..).unwrap()) && kept.contains(key.prefix()), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_key_with_the_same_prefix_is_wrong() {
    let world = Fixture::new().await;
    let (_, kept) = keyed(&world, "ada@example.com", Role::Owner, 1).await;
    let shown = ApiKey::new("test", [1; ID_BYTES], [2; SECRET_BYTES]);
    assert_eq!(shown.prefix(), kept.prefix());
    let found = find(&world, &kept).await.unwrap();
    assert_eq!(found.verify(&shown, None), Err(KeyRefusal::Wrong));
    world.sql("UPDATE api_keys SET revoked_at = now()").await;
    assert_eq!(verify(&world, &shown).await, Err(KeyRefusal::Wrong));
    assert_eq!(verify(&world, &kept).await, Err(KeyRefusal::Revoked));
    assert!(find(&world, &key(3)).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn key_ends_with_expiry_user_or_membership() {
    let world = Fixture::new().await;
    let (_, key) = keyed(&world, "ada@example.com", Role::Viewer, 1).await;
    world.sql("UPDATE users SET is_active = false").await;
    assert_eq!(verify(&world, &key).await, Err(KeyRefusal::Inactive));
    let (before, after) =
        users::set_active(&mut world.conn().await, "Ada@Example.com", true).await.unwrap().unwrap();
    assert!(!before.is_active && after.is_active && after.updated_at > before.updated_at);
    verify(&world, &key).await.unwrap();
    world
        .sql("UPDATE api_keys SET created_at = now() - interval '2 h', expires_at = now() - interval '1 s'")
        .await;
    assert_eq!(verify(&world, &key).await, Err(KeyRefusal::Expired));
    remove(&world, "ada@example.com").await.unwrap();
    assert!(find(&world, &key).await.is_none(), "the key was deleted with the membership");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_key_has_only_its_scopes() {
    let world = Fixture::new().await;
    let key = key(1);
    let refused = make(&world, &key, None, None).await.unwrap_err();
    assert_eq!(refused.constraint(), Some("api_keys_key_of_tenant_has_scopes_check"));
    let scopes = scopes_of(&["jobs:read", "system:operate"]);
    make(&world, &key, None, scopes).await.unwrap();
    let permissions: Vec<Permission> = verify(&world, &key).await.unwrap().iter().collect();
    assert_eq!(permissions, [Permission::JobsRead]);
    let stranger =
        make(&world, &self::key(2), Some(UserId(uuid::Uuid::from_u128(9))), None).await.unwrap_err();
    assert_eq!(stranger.constraint(), Some("api_keys_membership_fkey"));
}

#[tokio::test(flavor = "multi_thread")]
async fn last_use_is_recorded_once_a_minute() {
    let world = Fixture::new().await;
    let (_, key) = keyed(&world, "ada@example.com", Role::Viewer, 1).await;
    let found = find(&world, &key).await.unwrap();
    assert!(found.is_to_be_touched);
    let used = "SELECT last_used_at FROM api_keys";
    api_keys::touch(&mut world.conn().await, TENANT, found.id).await.unwrap();
    let first = world.text(used).await;
    assert!(!find(&world, &key).await.unwrap().is_to_be_touched);
    api_keys::touch(&mut world.conn().await, TENANT, found.id).await.unwrap();
    assert_eq!(world.text(used).await, first);
    world.sql("UPDATE api_keys SET last_used_at = now() - interval '61 s'").await;
    assert!(find(&world, &key).await.unwrap().is_to_be_touched);
}

fn owner(source: &str) -> Revoker<'_> {
    Revoker { user: None, may_others: true, may_owners: true, source }
}

#[tokio::test(flavor = "multi_thread")]
async fn key_is_revoked_once_in_its_tenant() {
    let world = Fixture::new().await;
    let (_, one) = keyed(&world, "ada@example.com", Role::Viewer, 1).await;
    let (_, two) = keyed(&world, "bea@example.com", Role::Viewer, 2).await;
    let mut conn = world.conn().await;
    let other = TenantId(uuid::Uuid::from_u128(7));
    assert_eq!(
        api_keys::revoke(&mut conn, other, one.prefix(), owner("x")).await.unwrap(),
        Revoked::NoSuchKey
    );
    let Revoked::Now(record) = api_keys::revoke(&mut conn, TENANT, one.prefix(), owner("ada")).await.unwrap()
    else {
        panic!("not revoked")
    };
    assert_eq!(record.revoked_src.as_deref(), Some("ada"));
    assert_eq!(
        api_keys::revoke(&mut conn, TENANT, &record.id.to_string(), owner("bea")).await.unwrap(),
        Revoked::Before(record)
    );
    assert_eq!(verify(&world, &one).await, Err(KeyRefusal::Revoked));
    verify(&world, &two).await.unwrap();
    let page =
        api_keys::list(&mut conn, TENANT, None, PageRequest { after: ("a key", one.prefix()), limit: 10 })
            .await
            .unwrap();
    let shown: Vec<(&str, Option<&str>)> =
        page.iter().map(|(key, email)| (key.key_prefix.as_str(), email.as_deref())).collect();
    let all =
        api_keys::list(&mut conn, TENANT, None, PageRequest { after: ("", ""), limit: 10 }).await.unwrap();
    assert_eq!(all.len(), 2);
    assert!(
        shown.len() < 2 && page.iter().all(|(key, _)| key.key_prefix.as_str() > one.prefix()),
        "{shown:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn address_is_unique_in_any_case() {
    let world = Fixture::new().await;
    user(&world, "Ada@example.com").await;
    let again = NewUser {
        email: "aDa@example.com",
        display_name: "x",
        password_hash: None,
        is_system_operator: false,
    };
    let error = users::create(&mut world.conn().await, again).await.unwrap_err();
    assert_eq!(error.constraint(), Some("users_email_key"));
    user(&world, "bea@example.com").await;
    let after = users::list(&mut world.conn().await, Some("ADA@EXAMPLE.COM"), 10).await.unwrap();
    assert_eq!(after.iter().map(|user| user.email.as_str()).collect::<Vec<_>>(), ["bea@example.com"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_cannot_remove_each_other_concurrently() {
    let world = Fixture::new().await;
    for email in ["ada@example.com", "bea@example.com"] {
        user(&world, email).await;
        put(&world, email, Role::Owner).await.unwrap();
    }
    let (one, other) =
        tokio::join!(remove(&world, "ada@example.com"), put(&world, "bea@example.com", Role::Viewer));
    let refused = [one.err(), other.err()].into_iter().flatten().collect::<Vec<_>>();
    assert!(matches!(refused.as_slice(), [MemberError::LastOwner]), "{refused:?}");
    assert_eq!(world.number("SELECT count(*) FROM memberships WHERE role = 'owner'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn new_tenant_has_default_queue_and_project() {
    let world = Fixture::new().await;
    let mut conn = world.conn().await;
    let made =
        transact(&mut conn, "test", async |conn: &mut Conn| tenants::create(conn, "acme", "Acme").await)
            .await
            .unwrap();
    assert_eq!(tenants::by_id(&mut conn, made.id).await.unwrap(), made);
    for table in ["queues", "projects"] {
        let count =
            format!("SELECT count(*) FROM {table} WHERE tenant_id = '{}' AND name = 'default'", made.id);
        assert_eq!(world.number(&count).await, 1, "{table}");
    }
    let again =
        transact(&mut conn, "test", async |conn: &mut Conn| tenants::create(conn, "acme", "x").await).await;
    assert_eq!(again.unwrap_err().constraint(), Some("tenants_slug_key"));
    let slugs = tenants::list(&mut conn, Some("acme"), 10).await.unwrap();
    assert_eq!(slugs.iter().map(|tenant| tenant.slug.as_str()).collect::<Vec<_>>(), ["default"]);
}
