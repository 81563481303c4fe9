//! API keys: made, found by what is shown, listed, changed, revoked. Their text is nowhere here, only its hash.
//!
//! A key is found by one read of one index, with everything that decides what it may do, because every request needs it. When it was
//! last used is noted once a minute at most. Revoking keeps the row, so that the audit log names something that is still there.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, Bool, Bytea, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::{api_keys, memberships, users};
use crate::{Conn, DbResult, connection::database_clock};
use sched_domain::identity::{ApiKey, Permission, Permissions, Role, Standing, scopes_of};
use sched_domain::identity::{KeyHash, UnknownRingKey};
use sched_domain::ids::{ApiKeyId, TenantId, UserId};
use sched_domain::secret::SecretKeys;

/// What is told of a key.
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

/// A key to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewApiKey<'a> {
    /// The tenant it acts in.
    pub tenant: TenantId,
    /// The member who owns it; `None` for a key of the tenant.
    pub user: Option<UserId>,
    /// What it is for.
    pub name: &'a str,
    /// Its public part.
    pub prefix: &'a str,
    /// What is kept of it.
    pub hash: &'a KeyHash,
    /// What it may do; `None` for all that its owner may.
    pub scopes: Option<Permissions>,
    /// When it ends.
    pub expires_at: Option<DateTime<Utc>>,
    /// Who makes it.
    pub source: &'a str,
}

/// Makes a key.
///
/// # Errors
/// A constraint when the user is no member of the tenant (`api_keys_membership_fkey`), or it ends before it began
/// (`api_keys_expires_after_created_check`).
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
    let made = diesel::insert_into(k::table).values(values).returning(ApiKeyRecord::as_returning());
    Ok(made.get_result(conn).await?)
}

/// How many keys of a member can be used. Holds their membership until the end of the transaction, so that those who make keys at the
/// same moment count one after the other.
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
    /// Raw because every request may need it: one prepared statement for what decides over a key.
    Find<'a> = "api_keys/api_keys_find.sql", (prefix: &'a str as Text) -> (
        SqlUuid, Text, SqlUuid, Bytea, Nullable<Text>, Array<Text>,
        Nullable<SqlUuid>, Nullable<Text>, Nullable<Text>, Nullable<Bool>, Nullable<Bool>, Nullable<Timestamptz>, Bool,
        Bool, Bool,
    )
}

/// A key that is kept under a prefix, with all that decides what it may do.
#[derive(Debug, Clone, Queryable)]
pub struct FoundKey {
    /// The tenant it acts in.
    pub tenant: TenantId,
    /// The slug of that.
    pub tenant_slug: String,
    /// Its id.
    pub id: ApiKeyId,
    hash: Vec<u8>,
    ring_key: Option<String>,
    scopes: Vec<String>,
    /// The member who owns it.
    pub user: Option<UserId>,
    /// The address of that.
    pub email: Option<String>,
    /// What that is in the tenant.
    pub role: Option<Role>,
    is_system_operator: Option<bool>,
    is_active: Option<bool>,
    /// When it ends.
    pub expires_at: Option<DateTime<Utc>>,
    is_revoked: bool,
    is_expired: bool,
    /// Whether its last use was so long ago that it is to be noted anew.
    pub is_to_be_touched: bool,
}

/// Why a key that is kept is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyRefusal {
    /// Another key with the same prefix.
    #[error("there is no such key")]
    Wrong,
    /// It was taken back.
    #[error("the key was revoked")]
    Revoked,
    /// Its time is over.
    #[error("the key has expired")]
    Expired,
    /// Its user may not sign in any more.
    #[error("the user of the key is deactivated")]
    Inactive,
    /// Nobody can tell whether it is right.
    #[error(transparent)]
    Unverifiable(#[from] UnknownRingKey),
}

impl FoundKey {
    /// Whether it has scopes.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// What the key that is shown may do.
    ///
    /// # Errors
    /// It is another key, or none any more. That it is another is told first, so that who guesses learns nothing of a key's state.
    pub fn judge(&self, shown: &ApiKey, ring: Option<&SecretKeys>) -> Result<Permissions, KeyRefusal> {
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
            return Ok(Standing::Tenant.permissions(scopes));
        }
        match (self.is_active, self.role) {
            (Some(true), Some(role)) => {
                let is_system_operator = self.is_system_operator == Some(true);
                Ok(Standing::Member { role, is_system_operator }.permissions(scopes))
            }
            _ => Err(KeyRefusal::Inactive),
        }
    }
}

/// The key that is kept under this prefix.
pub async fn find(conn: &mut Conn, prefix: &str) -> DbResult<Option<FoundKey>> {
    Ok(Find { prefix }.get_result(conn).await.optional()?)
}

statement! {
    /// Raw for its condition, which keeps several processes from noting the same minute.
    Touch = "api_keys/api_keys_touch.sql", (tenant: TenantId as SqlUuid, id: ApiKeyId as SqlUuid) -> ()
}

/// Notes that a key is used, unless that was noted within the last minute.
pub async fn touch(conn: &mut Conn, tenant: TenantId, id: ApiKeyId) -> DbResult<()> {
    Touch { tenant, id }.execute(conn).await?;
    Ok(())
}

/// Keys of the tenant after `(name, prefix)`, at most `limit`, by name, each with the e-mail of its owner; of one user alone if that is said.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    of: Option<UserId>,
    (after_name, after_prefix): (&str, &str),
    limit: i64,
) -> DbResult<Vec<(ApiKeyRecord, Option<String>)>> {
    use api_keys as k;
    let after = k::name.gt(after_name).or(k::name.eq(after_name).and(k::key_prefix.gt(after_prefix)));
    let mut query = k::table
        .left_join(users::table.on(users::id.nullable().eq(k::user_id)))
        .filter(k::tenant_id.eq(tenant).and(after))
        .order((k::name, k::key_prefix))
        .limit(limit)
        .select((ApiKeyRecord::as_select(), users::email.nullable()))
        .into_boxed();
    if let Some(user) = of {
        query = query.filter(k::user_id.eq(user));
    }
    Ok(query.load(conn).await?)
}

/// The key of the tenant that is named by its id or its prefix, with the e-mail of its owner; of one user alone if that is said.
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

/// What came of a revocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// It is revoked now.
    Now(ApiKeyRecord),
    /// It was before.
    Before(ApiKeyRecord),
    /// It is the key of an owner of the tenant, and who asks is none.
    OfAnOwner,
    /// The tenant has no such key.
    NoSuchKey,
}

/// Who revokes or changes a key.
#[derive(Debug, Clone, Copy)]
pub struct Revoker<'a> {
    /// The user, whose own keys are theirs to revoke.
    pub user: Option<UserId>,
    /// Whether those of others are, too.
    pub may_others: bool,
    /// Whether keys of owners are, as they are an owner's.
    pub may_owners: bool,
    /// How it is called in the row.
    pub source: &'a str,
}

/// Revokes a key, named by its id or its prefix, for good.
pub async fn revoke(conn: &mut Conn, tenant: TenantId, key: &str, by: Revoker<'_>) -> DbResult<Revoked> {
    use api_keys as k;
    let found = match hold(conn, tenant, key, by).await? {
        Ok(found) => found,
        Err(Barred::OfAnOwner) => return Ok(Revoked::OfAnOwner),
        Err(Barred::NoSuchKey) => return Ok(Revoked::NoSuchKey),
    };
    if found.revoked_at.is_some() {
        return Ok(Revoked::Before(found));
    }
    let changed = diesel::update(k::table.find((tenant, found.id)))
        .set((k::revoked_at.eq(database_clock::clock_timestamp().nullable()), k::revoked_src.eq(by.source)))
        .returning(ApiKeyRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok(Revoked::Now(changed))
}

/// What is to be different about a key: it may be called otherwise, do less, and end sooner. What is `None` stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyChange<'a> {
    /// What it is for.
    pub name: Option<&'a str>,
    /// What it may do, of what it may do now.
    pub scopes: Option<Permissions>,
    /// When it ends, no later than it does now.
    pub expires_at: Option<DateTime<Utc>>,
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// It is so now.
    Now {
        /// What it was.
        before: Box<ApiKeyRecord>,
        /// What it is.
        after: Box<ApiKeyRecord>,
    },
    /// It cannot be used any more, and a change does not alter that.
    Over,
    /// It would have ended before now.
    Past,
    /// It does not have this scope now.
    Wider(Permission),
    /// It ends sooner now.
    Longer(DateTime<Utc>),
    /// It is the key of an owner of the tenant, and who asks is none.
    OfAnOwner,
    /// The tenant has no such key.
    NoSuchKey,
}

/// Changes a key, named by its id or its prefix. It never comes to do more or to last longer, so that who may take it away may change it, whatever
/// they may do themselves.
pub async fn change(
    conn: &mut Conn,
    tenant: TenantId,
    key: &str,
    change: KeyChange<'_>,
    by: Revoker<'_>,
) -> DbResult<Changed> {
    use api_keys as k;
    let before = match hold(conn, tenant, key, by).await? {
        Ok(found) => found,
        Err(Barred::OfAnOwner) => return Ok(Changed::OfAnOwner),
        Err(Barred::NoSuchKey) => return Ok(Changed::NoSuchKey),
    };
    let now = database_clock::now(conn).await?;
    if before.revoked_at.is_some() || before.expires_at.is_some_and(|end| end <= now) {
        return Ok(Changed::Over);
    }
    if change.expires_at.is_some_and(|end| end <= now) {
        return Ok(Changed::Past);
    }
    if let (Some(has), Some(wanted)) = (scopes_of(&before.scopes), change.scopes)
        && let Some(scope) = wanted.iter().find(|scope| !has.has(*scope))
    {
        return Ok(Changed::Wider(scope));
    }
    if let (Some(end), Some(wanted)) = (before.expires_at, change.expires_at)
        && wanted > end
    {
        return Ok(Changed::Longer(end));
    }
    let scopes = match change.scopes {
        Some(scopes) => scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        None => before.scopes.clone(),
    };
    let values = (
        k::name.eq(change.name.unwrap_or(&before.name)),
        k::scopes.eq(scopes),
        k::expires_at.eq(change.expires_at.or(before.expires_at)),
    );
    let after = diesel::update(k::table.find((tenant, before.id)))
        .set(values)
        .returning(ApiKeyRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok(Changed::Now { before: Box::new(before), after: Box::new(after) })
}

/// Why somebody may not take a key away or change it.
enum Barred {
    /// It is the key of an owner of the tenant, and they are none.
    OfAnOwner,
    /// The tenant has no such key, or none that is theirs to know.
    NoSuchKey,
}

/// The key that somebody wants to take away or change, locked.
async fn hold(
    conn: &mut Conn,
    tenant: TenantId,
    key: &str,
    by: Revoker<'_>,
) -> DbResult<Result<ApiKeyRecord, Barred>> {
    use api_keys as k;
    let own = k::table.filter(k::tenant_id.eq(tenant));
    let found: Option<ApiKeyRecord> = match key.parse::<ApiKeyId>() {
        Ok(id) => own.filter(k::id.eq(id)).select(ApiKeyRecord::as_select()).for_update().first(conn).await,
        Err(_no_id) => {
            own.filter(k::key_prefix.eq(key)).select(ApiKeyRecord::as_select()).for_update().first(conn).await
        }
    }
    .optional()?;
    let is_theirs = |key: &ApiKeyRecord| by.may_others || (by.user.is_some() && key.user_id == by.user);
    let Some(found) = found.filter(is_theirs) else { return Ok(Err(Barred::NoSuchKey)) };
    if let Some(user) = found.user_id
        && found.revoked_at.is_none()
        && by.user != Some(user)
        && !by.may_owners
        && role_of(conn, tenant, user).await? == Some(Role::Owner)
    {
        return Ok(Err(Barred::OfAnOwner));
    }
    Ok(Ok(found))
}

async fn role_of(conn: &mut Conn, tenant: TenantId, user: UserId) -> DbResult<Option<Role>> {
    let role = memberships::table.find((tenant, user)).select(memberships::role);
    Ok(role.first(conn).await.optional()?)
}
