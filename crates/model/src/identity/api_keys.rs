//! API keys: create, find, list, change, revoke. This module sees only the hash of a key, never its
//! text.
//!
//! Every request needs a key, so one index lookup finds it together with everything that decides
//! its permissions. The last use is recorded at most once a minute. A revoked key keeps its row for
//! the audit log.

mod changes;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, Bool, Bytea, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::{api_keys, users};
use crate::{Conn, DbResult, PageRequest};
use sched_domain::identity::{ApiKey, Permissions, Principal, Role, scopes_of};
use sched_domain::identity::{KeyHash, UnknownRingKey};
use sched_domain::ids::{ApiKeyId, TenantId, UserId};
use sched_domain::secret::SecretKeys;

pub use self::changes::{Changed, KeyChange, Revoked, Revoker, change, revoke};

#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = api_keys, check_for_backend(diesel::pg::Pg))]
pub struct ApiKeyRecord {
    pub id: ApiKeyId,
    pub user_id: Option<UserId>,
    pub name: String,
    pub key_prefix: String,
    pub hash_key_id: Option<String>,
    pub scopes: Vec<String>,
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
    pub revoked_src: Option<String>,
    pub last_used_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub created_src: String,
}

#[derive(Debug, Clone, Copy)]
pub struct NewApiKey<'a> {
    pub tenant: TenantId,
    pub user: Option<UserId>,
    pub name: &'a str,
    pub prefix: &'a str,
    pub hash: &'a KeyHash,
    /// `None` for all permissions of its owner.
    pub scopes: Option<Permissions>,
    pub expires_at: Option<DateTime<Utc>>,
    /// Component or user e-mail address.
    pub source: &'a str,
}

/// Fails with a constraint error if the user is not a member (`api_keys_membership_fkey`), or the
/// key would expire before its creation (`api_keys_expires_after_created_check`).
pub async fn create(conn: &mut Conn, new: NewApiKey<'_>) -> DbResult<ApiKeyRecord> {
    use api_keys as k;
    let scopes: Vec<&str> =
        new.scopes.map(|scopes| scopes.iter().map(|scope| scope.as_str()).collect()).unwrap_or_default();
    let values = (
        k::tenant_id.eq(new.tenant),
        k::user_id.eq(new.user),
        k::name.eq(new.name),
        k::key_prefix.eq(new.prefix),
        k::key_hash.eq(&new.hash.hash[..]),
        k::hash_key_id.eq(&new.hash.ring_key),
        k::scopes.eq(scopes),
        k::expires_at.eq(new.expires_at),
        k::created_src.eq(new.source),
    );
    let created = diesel::insert_into(k::table).values(values).returning(ApiKeyRecord::as_returning());
    Ok(created.get_result(conn).await?)
}

/// Usable keys of a member. Locks the membership until the end of the transaction, so that
/// concurrent creations count one after another.
pub async fn living(conn: &mut Conn, tenant: TenantId, user: UserId) -> DbResult<i64> {
    use crate::schema::memberships as m;
    use api_keys as k;
    let held = m::table.filter(m::tenant_id.eq(tenant)).filter(m::user_id.eq(user)).select(m::user_id);
    held.for_no_key_update().load::<UserId>(conn).await?;
    let ends_later = k::expires_at.is_null().or(k::expires_at.gt(diesel::dsl::now));
    let living = k::table
        .filter(k::tenant_id.eq(tenant))
        .filter(k::user_id.eq(user))
        .filter(k::revoked_at.is_null())
        .filter(ends_later);
    Ok(living.count().get_result(conn).await?)
}

statement! {
    /// Raw SQL because any request may need it: one prepared statement.
    Find<'a> = "api_keys/api_keys_find.sql", (prefix: &'a str as Text) -> (
        SqlUuid, Text, SqlUuid, Bytea, Nullable<Text>, Array<Text>,
        Nullable<SqlUuid>, Nullable<Text>, Nullable<Text>, Nullable<Bool>, Nullable<Bool>, Nullable<Timestamptz>, Bool,
        Bool, Bool,
    )
}

#[derive(Debug, Clone, Queryable)]
pub struct FoundKey {
    pub tenant: TenantId,
    pub tenant_slug: String,
    pub id: ApiKeyId,
    hash: Vec<u8>,
    ring_key: Option<String>,
    scopes: Vec<String>,
    pub user: Option<UserId>,
    pub email: Option<String>,
    pub role: Option<Role>,
    is_system_operator: Option<bool>,
    is_active: Option<bool>,
    pub expires_at: Option<DateTime<Utc>>,
    is_revoked: bool,
    is_expired: bool,
    pub is_to_be_touched: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    /// Another key with the same prefix.
    #[error("there is no such key")]
    Wrong,
    #[error("the key was revoked")]
    Revoked,
    #[error("the key has expired")]
    Expired,
    #[error("the user of the key is deactivated")]
    Inactive,
    #[error(transparent)]
    Unverifiable(#[from] UnknownRingKey),
}

impl FoundKey {
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// Verifies the presented key.
    ///
    /// # Errors
    /// A different or invalid key. A mismatch is checked first, so that guessing reveals nothing
    /// about its state.
    pub fn verify(&self, shown: &ApiKey, ring: Option<&SecretKeys>) -> Result<Permissions, KeyRefusal> {
        if !shown.fits(&self.hash, self.ring_key.as_deref(), ring)? {
            return Err(KeyRefusal::Wrong);
        }
        if self.is_revoked {
            return Err(KeyRefusal::Revoked);
        }
        if self.is_expired {
            return Err(KeyRefusal::Expired);
        }
        let scopes = scopes_of(&self.scopes);
        if self.user.is_none() {
            return Ok(Principal::Tenant.permissions(scopes));
        }
        match (self.is_active, self.role) {
            (Some(true), Some(role)) => {
                let is_system_operator = self.is_system_operator == Some(true);
                Ok(Principal::Member { role, is_system_operator }.permissions(scopes))
            }
            _ => Err(KeyRefusal::Inactive),
        }
    }
}

pub async fn find(conn: &mut Conn, prefix: &str) -> DbResult<Option<FoundKey>> {
    Ok(Find { prefix }.get_result(conn).await.optional()?)
}

statement! {
    /// Stops several processes from writing in the same minute.
    Touch = "api_keys/api_keys_touch.sql", (tenant: TenantId as SqlUuid, id: ApiKeyId as SqlUuid) -> ()
}

pub async fn touch(conn: &mut Conn, tenant: TenantId, id: ApiKeyId) -> DbResult<()> {
    Touch { tenant, id }.execute(conn).await?;
    Ok(())
}

/// A page of the tenant's keys by name and prefix, each with the e-mail of its owner; optionally of
/// one user.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    of: Option<UserId>,
    page: PageRequest<(&str, &str)>,
) -> DbResult<Vec<(ApiKeyRecord, Option<String>)>> {
    use api_keys as k;
    let (after_name, after_prefix) = page.after;
    let after = k::name.gt(after_name).or(k::name.eq(after_name).and(k::key_prefix.gt(after_prefix)));
    let mut query = k::table
        .left_join(users::table.on(users::id.nullable().eq(k::user_id)))
        .filter(k::tenant_id.eq(tenant).and(after))
        .order((k::name, k::key_prefix))
        .limit(page.limit)
        .select((ApiKeyRecord::as_select(), users::email.nullable()))
        .into_boxed();
    if let Some(user) = of {
        query = query.filter(k::user_id.eq(user));
    }
    Ok(query.load(conn).await?)
}

/// The key with this id or prefix; optionally of one user.
pub async fn by_name(
    conn: &mut Conn,
    tenant: TenantId,
    of: Option<UserId>,
    key: &str,
) -> DbResult<Option<(ApiKeyRecord, Option<String>)>> {
    use api_keys as k;
    let mut query = k::table
        .left_join(users::table.on(users::id.nullable().eq(k::user_id)))
        .filter(k::tenant_id.eq(tenant))
        .select((ApiKeyRecord::as_select(), users::email.nullable()))
        .into_boxed();
    query = match key.parse::<ApiKeyId>() {
        Ok(id) => query.filter(k::id.eq(id)),
        Err(_no_id) => query.filter(k::key_prefix.eq(key)),
    };
    if let Some(user) = of {
        query = query.filter(k::user_id.eq(user));
    }
    Ok(query.first(conn).await.optional()?)
}
