//! Memberships of users in tenants.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::{active_owners, lock_tenant, lower};
use crate::schema::{memberships, users};
use crate::{Conn, DbError, DbResult};
use sched_domain::identity::Role;
use sched_domain::ids::{TenantId, UserId};

#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct Member {
    pub user: UserId,
    pub email: String,
    pub display_name: String,
    pub is_active: bool,
    pub role: Role,
    pub since: DateTime<Utc>,
}

pub async fn members(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&str>,
    limit: i64,
) -> DbResult<Vec<Member>> {
    let after = after.unwrap_or_default();
    let rows = memberships::table
        .inner_join(users::table.on(users::id.eq(memberships::user_id)))
        .filter(memberships::tenant_id.eq(tenant))
        .filter(lower(users::email).gt(lower(after)))
        .order(lower(users::email))
        .limit(limit)
        .select(MEMBER)
        .load(conn)
        .await?;
    Ok(rows)
}

type MemberColumns = (
    users::id,
    users::email,
    users::display_name,
    users::is_active,
    memberships::role,
    memberships::created_at,
);
const MEMBER: MemberColumns = (
    users::id,
    users::email,
    users::display_name,
    users::is_active,
    memberships::role,
    memberships::created_at,
);

pub async fn member(conn: &mut Conn, tenant: TenantId, email: &str) -> DbResult<Option<Member>> {
    let found = memberships::table
        .inner_join(users::table.on(users::id.eq(memberships::user_id)))
        .filter(memberships::tenant_id.eq(tenant))
        .filter(lower(users::email).eq(lower(email)))
        .select(MEMBER);
    Ok(found.first(conn).await.optional()?)
}

/// With everything that decides the member's permissions.
#[derive(Debug, Clone, PartialEq, Eq, Queryable)]
pub struct FoundMember {
    pub tenant: TenantId,
    pub user: UserId,
    pub email: String,
    pub role: Role,
    pub is_system_operator: bool,
    pub is_active: bool,
}

statement! {
    /// A database function, because the tenant is not known yet.
    FindMember<'a> = "users_find_member.sql", (email: &'a str as Text, slug: &'a str as Text)
        -> (SqlUuid, SqlUuid, Text, Text, Bool, Bool)
}

statement! {
    /// A database function, because the user may be in no tenant visible to the caller.
    FindUser<'a> = "users_find.sql", (email: &'a str as Text) -> SqlUuid
}

pub async fn member_of(conn: &mut Conn, email: &str, slug: &str) -> DbResult<Option<FoundMember>> {
    Ok(FindMember { email, slug }.get_result(conn).await.optional()?)
}

#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    #[error("there is no user {0:?}")]
    NoSuchUser(String),
    #[error("this is the last active owner of the tenant; make another user an owner first")]
    LastOwner,
    #[error(transparent)]
    Database(#[from] DbError),
}

impl From<diesel::result::Error> for MemberError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl crate::connection::transaction::TransactionError for MemberError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_retryable())
    }
}

#[derive(Debug, Clone)]
pub struct SavedMember {
    /// The role before the change; `None` for a new member.
    pub before: Option<Role>,
    pub member: Member,
}

/// Adds a user to the tenant, or changes their role. Call it in a transaction.
///
/// # Errors
/// No such user, or the last owner would lose the role.
pub async fn put_member(
    conn: &mut Conn,
    tenant: TenantId,
    email: &str,
    role: Role,
) -> Result<SavedMember, MemberError> {
    use memberships as m;
    lock_tenant(conn, tenant).await?;
    let no_such_user = || MemberError::NoSuchUser(email.to_owned());
    let found: Option<UserId> = FindUser { email }.get_result(conn).await.optional()?;
    let user = found.ok_or_else(no_such_user)?;
    let before = member(conn, tenant, email).await?.map(|member| member.role);
    if before == Some(Role::Owner) && role != Role::Owner && active_owners(conn, tenant, user).await? == 0 {
        return Err(MemberError::LastOwner);
    }
    diesel::insert_into(m::table)
        .values((m::tenant_id.eq(tenant), m::user_id.eq(user), m::role.eq(role)))
        .on_conflict((m::tenant_id, m::user_id))
        .do_update()
        .set(m::role.eq(role))
        .execute(conn)
        .await?;
    let member = member(conn, tenant, email).await?.ok_or_else(no_such_user)?;
    Ok(SavedMember { before, member })
}

/// Ends a membership and deletes the user's keys in the tenant. Call it in a transaction.
///
/// # Errors
/// No such member, or the last owner.
pub async fn remove_member(conn: &mut Conn, tenant: TenantId, email: &str) -> Result<Member, MemberError> {
    lock_tenant(conn, tenant).await?;
    let found = member(conn, tenant, email).await?;
    let found = found.ok_or_else(|| MemberError::NoSuchUser(email.to_owned()))?;
    if found.role == Role::Owner && active_owners(conn, tenant, found.user).await? == 0 {
        return Err(MemberError::LastOwner);
    }
    diesel::delete(memberships::table.find((tenant, found.user))).execute(conn).await?;
    Ok(found)
}
