//! Users of the installation, and their memberships in tenants.
//!
//! A tenant with an owner keeps at least one. Every change of owners locks the tenant's row before
//! it reads the other owners, so that two owners cannot remove each other concurrently.

mod members;

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::schema::{memberships, tenants, users};
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::identity::Role;
use sched_domain::ids::{TenantId, UserId};

pub use self::members::{
    FoundMember, Member, MemberError, SavedMember, member, member_of, members, put_member, remove_member,
};

diesel::define_sql_function! {
    /// E-mail addresses are unique under the server's `lower()`.
    fn lower(text: diesel::sql_types::Text) -> diesel::sql_types::Text;
}

#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = users, check_for_backend(diesel::pg::Pg))]
pub struct UserRecord {
    pub id: UserId,
    pub email: String,
    pub display_name: String,
    pub is_active: bool,
    pub is_system_operator: bool,
    pub last_login_at: Option<DateTime<Utc>>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy)]
pub struct NewUser<'a> {
    pub email: &'a str,
    pub display_name: &'a str,
    /// Hash of the password; `None` if the user signs in by other means.
    pub password_hash: Option<&'a str>,
    pub is_system_operator: bool,
}

pub async fn create(conn: &mut Conn, new: NewUser<'_>) -> DbResult<UserRecord> {
    let values = (
        users::email.eq(new.email),
        users::display_name.eq(new.display_name),
        users::password_hash.eq(new.password_hash),
        users::is_system_operator.eq(new.is_system_operator),
    );
    let created = diesel::insert_into(users::table).values(values).returning(UserRecord::as_returning());
    Ok(created.get_result(conn).await?)
}

pub async fn by_email(conn: &mut Conn, email: &str) -> DbResult<Option<UserRecord>> {
    let found = users::table.filter(lower(users::email).eq(lower(email))).select(UserRecord::as_select());
    Ok(found.first(conn).await.optional()?)
}

pub async fn list(conn: &mut Conn, after: Option<&str>, limit: i64) -> DbResult<Vec<UserRecord>> {
    let after = after.unwrap_or_default();
    let rows = users::table.filter(lower(users::email).gt(lower(after))).order(lower(users::email));
    Ok(rows.limit(limit).select(UserRecord::as_select()).load(conn).await?)
}

/// Why a user may not be deactivated or deleted; nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum ActiveError {
    #[error("this is the last active owner of the tenant {0:?}; make another user an owner first")]
    LastOwner(String),
    #[error("this is the last active system operator; make another user an operator first")]
    LastOperator,
    #[error(transparent)]
    Database(#[from] DbError),
}

impl From<diesel::result::Error> for ActiveError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error.into())
    }
}

impl crate::connection::transaction::TransactionError for ActiveError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_retryable())
    }
}

/// Activates or deactivates a user; a deactivated user's sign-ins and keys are all rejected.
/// Returns the user before and after, or `None` if there is no such user. Call it in a transaction.
///
/// # Errors
/// The user is the last active owner of a tenant, or the last active system operator.
pub async fn set_active(
    conn: &mut Conn,
    email: &str,
    is_active: bool,
) -> Result<Option<(UserRecord, UserRecord)>, ActiveError> {
    let same = || users::table.filter(lower(users::email).eq(lower(email)));
    let Some(id) = same().select(users::id).first::<UserId>(conn).await.optional()? else {
        return Ok(None);
    };
    if !is_active {
        keep_active_owners(conn, id).await?;
        keep_an_operator(conn, id).await?;
    }
    let found = same().select(UserRecord::as_select());
    let Some(before) = found.for_update().first(conn).await.optional()? else { return Ok(None) };
    if before.is_active == is_active {
        return Ok(Some((before.clone(), before)));
    }
    let after = diesel::update(users::table.find(before.id))
        .set((users::is_active.eq(is_active), users::updated_at.eq(database_clock::clock_timestamp())))
        .returning(UserRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok(Some((before, after)))
}

/// Changes the name or password of a user. Returns the user before and after, or `None` if there is
/// no such user.
pub async fn patch(
    conn: &mut Conn,
    email: &str,
    display_name: Option<&str>,
    password_hash: Option<&str>,
) -> DbResult<Option<(UserRecord, UserRecord)>> {
    let found = users::table.filter(lower(users::email).eq(lower(email))).select(UserRecord::as_select());
    let Some(before) = found.for_update().first(conn).await.optional()? else { return Ok(None) };
    let user = users::table.find(before.id);
    if let Some(name) = display_name.filter(|name| *name != before.display_name) {
        diesel::update(user)
            .set((users::display_name.eq(name), users::updated_at.eq(database_clock::clock_timestamp())))
            .execute(conn)
            .await?;
    }
    if let Some(hash) = password_hash {
        diesel::update(user)
            .set((users::password_hash.eq(hash), users::updated_at.eq(database_clock::clock_timestamp())))
            .execute(conn)
            .await?;
    }
    let after = user.select(UserRecord::as_select()).get_result(conn).await?;
    Ok(Some((before, after)))
}

/// Grants or revokes the operation of the installation. Returns the user before and after, if
/// found. Call it in a transaction.
///
/// # Errors
/// The user is the last active system operator.
pub async fn set_operator(
    conn: &mut Conn,
    email: &str,
    is_system_operator: bool,
) -> Result<Option<(UserRecord, UserRecord)>, ActiveError> {
    let Some(user) = by_email(conn, email).await? else { return Ok(None) };
    if !is_system_operator {
        keep_an_operator(conn, user.id).await?;
    }
    let found = users::table.find(user.id).select(UserRecord::as_select());
    let Some(before) = found.for_update().first(conn).await.optional()? else { return Ok(None) };
    if before.is_system_operator == is_system_operator {
        return Ok(Some((before.clone(), before)));
    }
    let written = (
        users::is_system_operator.eq(is_system_operator),
        users::updated_at.eq(database_clock::clock_timestamp()),
    );
    let changed =
        diesel::update(users::table.find(before.id)).set(written).returning(UserRecord::as_returning());
    let after = changed.get_result(conn).await?;
    Ok(Some((before, after)))
}

/// Deletes and returns a user, with their memberships, keys and sessions.
///
/// The audit log keeps their actions under their e-mail address. Call it in a transaction.
///
/// # Errors
/// As [`set_active`].
pub async fn delete(conn: &mut Conn, email: &str) -> Result<Option<UserRecord>, ActiveError> {
    let Some(user) = by_email(conn, email).await? else { return Ok(None) };
    keep_active_owners(conn, user.id).await?;
    keep_an_operator(conn, user.id).await?;
    let deleted = diesel::delete(users::table.find(user.id)).returning(UserRecord::as_returning());
    Ok(deleted.get_result(conn).await.optional()?)
}

/// Fails if a tenant would have no active owner. Locks the tenants' rows, as every change of owners
/// does.
async fn keep_active_owners(conn: &mut Conn, user: UserId) -> Result<(), ActiveError> {
    let owned = memberships::table
        .filter(memberships::user_id.eq(user))
        .filter(memberships::role.eq(Role::Owner))
        .select(memberships::tenant_id);
    let owned: Vec<(TenantId, String)> = tenants::table
        .filter(tenants::id.eq_any(owned))
        .order(tenants::id)
        .select((tenants::id, tenants::slug))
        .for_no_key_update()
        .load(conn)
        .await?;
    for (tenant, slug) in owned {
        if active_owners(conn, tenant, user).await? == 0 {
            return Err(ActiveError::LastOwner(slug));
        }
    }
    Ok(())
}

/// Fails if the installation would have no other active operator. Locks the rows of all operators,
/// so that two cannot deactivate each other.
async fn keep_an_operator(conn: &mut Conn, user: UserId) -> Result<(), ActiveError> {
    let operators: Vec<UserId> = users::table
        .filter(users::is_system_operator.and(users::is_active))
        .order(users::id)
        .select(users::id)
        .for_no_key_update()
        .load(conn)
        .await?;
    if operators == [user] { Err(ActiveError::LastOperator) } else { Ok(()) }
}

async fn active_owners(conn: &mut Conn, tenant: TenantId, besides: UserId) -> DbResult<i64> {
    let others = memberships::table
        .inner_join(users::table.on(users::id.eq(memberships::user_id)))
        .filter(memberships::tenant_id.eq(tenant))
        .filter(memberships::role.eq(Role::Owner))
        .filter(users::is_active.and(users::id.ne(besides)));
    Ok(others.count().get_result(conn).await?)
}

async fn lock_tenant(conn: &mut Conn, tenant: TenantId) -> DbResult<()> {
    // The weaker lock: writers of other rows of this tenant do not wait.
    let row = tenants::table.find(tenant).select(tenants::id).for_no_key_update();
    row.first::<TenantId>(conn).await?;
    Ok(())
}
