//! Revocations and changes of API keys.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::ApiKeyRecord;
use crate::schema::{api_keys, memberships};
use crate::{Conn, DbResult, connection::database_clock};
use sched_domain::identity::{Permission, Permissions, Role, scopes_of};
use sched_domain::ids::{ApiKeyId, TenantId, UserId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    Now(ApiKeyRecord),
    /// The key was revoked earlier.
    Before(ApiKeyRecord),
    /// The caller is not an owner, and the key belongs to one.
    OfAnOwner,
    NoSuchKey,
}

/// The caller of [`revoke`] or [`change`].
#[derive(Debug, Clone, Copy)]
pub struct Revoker<'a> {
    /// The user; may revoke their own keys.
    pub user: Option<UserId>,
    /// Whether the caller may revoke the keys of other users.
    pub may_others: bool,
    /// Whether the caller, as an owner, may revoke the keys of owners.
    pub may_owners: bool,
    pub source: &'a str,
}

/// Revokes a key, given by its id or prefix, permanently.
pub async fn revoke(conn: &mut Conn, tenant: TenantId, key: &str, by: Revoker<'_>) -> DbResult<Revoked> {
    use api_keys as k;
    let found = match lock_key(conn, tenant, key, by).await? {
        Ok(found) => found,
        Err(KeyLockError::OfAnOwner) => return Ok(Revoked::OfAnOwner),
        Err(KeyLockError::NoSuchKey) => return Ok(Revoked::NoSuchKey),
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

/// A change of a key: a new name, fewer permissions, an earlier expiry. `None` leaves a field
/// unchanged.
#[derive(Debug, Clone, Copy, Default)]
pub struct KeyChange<'a> {
    /// The id or the prefix of the key.
    pub key: &'a str,
    pub name: Option<&'a str>,
    /// A subset of the present ones.
    pub scopes: Option<Permissions>,
    /// Not later than at present.
    pub expires_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    Now {
        before: Box<ApiKeyRecord>,
        after: Box<ApiKeyRecord>,
    },
    /// The key is no longer valid, which no change alters.
    Over,
    Past,
    Wider(Permission),
    Longer(DateTime<Utc>),
    /// The caller is not an owner, and the key belongs to one.
    OfAnOwner,
    NoSuchKey,
}

/// Changes a key. A change never adds permissions or extends the expiry,
/// so every caller that may revoke a key may change it, with any permissions.
pub async fn change(
    conn: &mut Conn,
    tenant: TenantId,
    change: KeyChange<'_>,
    by: Revoker<'_>,
) -> DbResult<Changed> {
    use api_keys as k;
    let before = match lock_key(conn, tenant, change.key, by).await? {
        Ok(found) => found,
        Err(KeyLockError::OfAnOwner) => return Ok(Changed::OfAnOwner),
        Err(KeyLockError::NoSuchKey) => return Ok(Changed::NoSuchKey),
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

enum KeyLockError {
    /// The caller is not an owner, and the key belongs to one.
    OfAnOwner,
    /// Also if the caller may not know it.
    NoSuchKey,
}

/// Locks the key.
async fn lock_key(
    conn: &mut Conn,
    tenant: TenantId,
    key: &str,
    by: Revoker<'_>,
) -> DbResult<Result<ApiKeyRecord, KeyLockError>> {
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
    let Some(found) = found.filter(is_theirs) else { return Ok(Err(KeyLockError::NoSuchKey)) };
    if let Some(user) = found.user_id
        && found.revoked_at.is_none()
        && by.user != Some(user)
        && !by.may_owners
        && role_of(conn, tenant, user).await? == Some(Role::Owner)
    {
        return Ok(Err(KeyLockError::OfAnOwner));
    }
    Ok(Ok(found))
}

async fn role_of(conn: &mut Conn, tenant: TenantId, user: UserId) -> DbResult<Option<Role>> {
    let role = memberships::table.find((tenant, user)).select(memberships::role);
    Ok(role.first(conn).await.optional()?)
}
