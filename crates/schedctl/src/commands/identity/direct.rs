//! Tenants, users and keys in the database, each in one transaction with its audit event.
//!
//! For operations without an API key: the first owner, and that of `schedctl dev`.

use anyhow::anyhow;
use sched_model::domain::identity::{ApiKey, ID_BYTES, Permissions, Role, SECRET_BYTES};
use sched_model::domain::ids::TenantId;
use sched_model::domain::secret::SecretKeys;
use sched_model::identity::api_keys::{self, ApiKeyRecord, NewApiKey};
use sched_model::identity::audit::AuditEntry;
use sched_model::identity::tenants::{self, TenantRecord};
use sched_model::identity::users::{self, MemberError, NewUser, UserRecord};
use sched_model::{Conn, DbError, identity::audit, transact};
use sched_runtime::exit::ExitError;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;

use super::refused;
use crate::failure::failure;

const ACTOR: &str = "schedctl";
const DEV_OWNER: &str = "dev@localhost";
pub(crate) const DEV_ENVIRONMENT: &str = "dev";

/// The object of an action in the audit log.
struct Target {
    kind: &'static str,
    id: String,
}

fn entry(
    tenant: Option<TenantId>,
    action: &'static str,
    target: Target,
    after: serde_json::Value,
) -> AuditEntry {
    AuditEntry {
        tenant_id: tenant,
        actor: ACTOR.to_owned(),
        action,
        target_type: target.kind,
        target_id: target.id,
        before: None,
        after: Some(after),
        request_id: None,
        address: None,
    }
}

pub(super) async fn tenant(conn: &mut Conn, slug: &str) -> Result<TenantId, ExitError> {
    match tenants::by_slug(conn, slug).await {
        Ok(tenant) => Ok(tenant),
        Err(DbError::NotFound) => Err(failure(anyhow!("there is no tenant {slug:?}"))),
        Err(error) => Err(failure(error)),
    }
}

pub(super) async fn create_tenant(
    conn: &mut Conn,
    slug: &str,
    name: &str,
    owner: Option<&str>,
) -> Result<TenantRecord, ExitError> {
    transact(conn, "create_tenant", async |conn: &mut Conn| {
        let made = tenants::create(conn, slug, name).await?;
        let target = Target { kind: "tenant", id: made.id.to_string() };
        let mut entries = vec![entry(None, "create_tenant", target, json!({"slug": slug, "name": name}))];
        if let Some(owner) = owner {
            entries.push(join(conn, made.id, owner, Role::Owner).await?);
        }
        audit::write(conn, &entries).await?;
        Ok::<_, MemberError>(made)
    })
    .await
    .map_err(refused("the tenant was not created"))
}

async fn join(conn: &mut Conn, tenant: TenantId, email: &str, role: Role) -> Result<AuditEntry, MemberError> {
    let saved = users::put_member(conn, tenant, email, role).await?;
    let after = json!({"email": saved.member.email, "role": role});
    let target = Target { kind: "membership", id: saved.member.user.to_string() };
    Ok(entry(Some(tenant), "create_membership", target, after))
}

pub(super) async fn create_user(
    conn: &mut Conn,
    new: NewUser<'_>,
    membership: Option<(TenantId, Role)>,
) -> Result<UserRecord, ExitError> {
    transact(conn, "create_user", async |conn: &mut Conn| {
        let made = users::create(conn, new).await?;
        let after = json!({"email": made.email, "is_system_operator": made.is_system_operator});
        let target = Target { kind: "user", id: made.id.to_string() };
        let mut entries = vec![entry(None, "create_user", target, after)];
        if let Some((tenant, role)) = membership {
            entries.push(join(conn, tenant, new.email, role).await?);
        }
        audit::write(conn, &entries).await?;
        Ok::<_, MemberError>(made)
    })
    .await
    .map_err(refused("the user was not created"))
}

pub(super) async fn set_password(conn: &mut Conn, email: &str, hash: &str) -> Result<UserRecord, ExitError> {
    transact(conn, "set_password", async |conn: &mut Conn| {
        let patched = users::patch(conn, email, None, Some(hash)).await?;
        let (_, user) = patched.ok_or_else(|| MemberError::NoSuchUser(email.to_owned()))?;
        let after = json!({"email": user.email});
        let target = Target { kind: "user", id: user.id.to_string() };
        let entry = entry(None, "set_password", target, after);
        audit::write(conn, &[entry]).await?;
        Ok::<_, MemberError>(user)
    })
    .await
    .map_err(refused("the password was not changed"))
}

#[derive(Debug, Clone, Copy)]
pub(super) struct KeyOrder<'a> {
    pub(super) tenant: TenantId,
    /// `None` for a key of the tenant.
    pub(super) email: Option<&'a str>,
    pub(super) name: &'a str,
    pub(super) scopes: Option<Permissions>,
    pub(super) expires_at: Option<chrono::DateTime<chrono::Utc>>,
}

pub(super) async fn create_key(
    conn: &mut Conn,
    order: KeyOrder<'_>,
    key: &ApiKey,
    ring: Option<&SecretKeys>,
) -> Result<ApiKeyRecord, ExitError> {
    let hash = key.hash(ring);
    transact(conn, "create_api_key", async |conn: &mut Conn| {
        let user = match order.email {
            Some(email) => {
                let found = users::by_email(conn, email).await?;
                Some(found.ok_or_else(|| MemberError::NoSuchUser(email.to_owned()))?.id)
            }
            None => None,
        };
        let new = NewApiKey {
            tenant: order.tenant,
            user,
            name: order.name,
            prefix: key.prefix(),
            hash: &hash,
            scopes: order.scopes,
            expires_at: order.expires_at,
            source: ACTOR,
        };
        let made = api_keys::create(conn, new).await?;
        let after = json!({"name": made.name, "prefix": made.key_prefix, "user_id": made.user_id, "scopes": made.scopes});
        let target = Target { kind: "api_key", id: made.id.to_string() };
        let entry = entry(Some(order.tenant), "create_api_key", target, after);
        audit::write(conn, &[entry]).await?;
        Ok::<_, MemberError>(made)
    })
    .await
    .map_err(refused("the key was not created"))
}

pub(super) fn new_key(environment: &str) -> ApiKey {
    let (id, secret): ([u8; ID_BYTES], [u8; SECRET_BYTES]) = (rand::random(), rand::random());
    ApiKey::new(environment, id, secret)
}

/// Ensures that `schedctl dev` has an owner with a valid key.
///
/// `keep` stores a new key before it becomes valid, so an interrupted start leaves a key that the
/// next start replaces.
pub(crate) async fn ensure_dev_key(
    conn: &mut Conn,
    ring: &SecretKeys,
    kept: Option<&SecretString>,
    keep: impl FnOnce(&SecretString) -> Result<(), ExitError>,
) -> Result<(), ExitError> {
    if let Some(key) = kept.and_then(|text| ApiKey::parse(text.expose_secret().trim()).ok())
        && let Some(found) = api_keys::find(conn, key.prefix()).await.map_err(failure)?
        && found.verify(&key, Some(ring)).is_ok()
    {
        return Ok(());
    }
    let tenant = tenant(conn, tenants::DEFAULT_TENANT).await?;
    if users::by_email(conn, DEV_OWNER).await.map_err(failure)?.is_none() {
        let owner = NewUser {
            email: DEV_OWNER,
            display_name: "Owner of schedctl dev",
            password_hash: None,
            is_system_operator: true,
        };
        create_user(conn, owner, Some((tenant, Role::Owner))).await?;
    }
    let key = new_key(DEV_ENVIRONMENT);
    keep(key.text())?;
    let order =
        KeyOrder { tenant, email: Some(DEV_OWNER), name: "schedctl dev", scopes: None, expires_at: None };
    create_key(conn, order, &key, Some(ring)).await?;
    Ok(())
}
