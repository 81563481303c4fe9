//! Sessions of signed-in users: create, find, list, end. This module sees only the hash of the
//! browser's token.
//!
//! One index lookup finds a session together with everything that decides its permissions. The last
//! use is recorded at most once a minute, which extends the session. An ended session is deleted. A
//! change of the password and the deactivation of an account delete the user's sessions (a trigger
//! on `users`). The next sign-in deletes expired sessions ([`super::sign_ins::record_sign_in`]).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Bytea, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::sessions;
use crate::{Conn, DbResult, connection::database_clock};
use sched_domain::identity::{KeyHash, Permissions, Principal, Role, SessionToken, UnknownRingKey};
use sched_domain::ids::{SessionId, TenantId, UserId};
use sched_domain::secret::SecretKeys;

pub const MOST: i64 = 50;

#[derive(Debug, Clone, PartialEq, Eq, Queryable, Selectable)]
#[diesel(table_name = sessions, check_for_backend(diesel::pg::Pg))]
pub struct SessionRecord {
    pub id: SessionId,
    pub user_id: UserId,
    pub created_at: DateTime<Utc>,
    pub last_seen_at: DateTime<Utc>,
    pub idle_until: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    pub user_agent: Option<String>,
    pub address: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    pub tenant: TenantId,
    pub id: SessionId,
    pub user: UserId,
    pub hash: &'a KeyHash,
    /// User agent of the browser, at most 200 characters.
    pub user_agent: Option<&'a str>,
    pub address: Option<&'a str>,
    /// Maximum idle time in seconds.
    pub idle_seconds: f64,
    /// Maximum lifetime in seconds.
    pub seconds: f64,
}

statement! {
    /// Raw SQL because both ends use one clock reading, and the statement also deletes the oldest
    /// sessions.
    Create<'a> = "sessions/sessions_create.sql", (
        tenant: TenantId as SqlUuid,
        id: SessionId as SqlUuid,
        user: UserId as SqlUuid,
        hash: &'a [u8] as Bytea,
        ring_key: Option<&'a str> as Nullable<Text>,
        user_agent: Option<&'a str> as Nullable<Text>,
        address: Option<&'a str> as Nullable<Text>,
        idle_seconds: f64 as Double,
        seconds: f64 as Double,
        most: i64 as BigInt,
    ) -> (SqlUuid, SqlUuid, Timestamptz, Timestamptz, Timestamptz, Timestamptz, Nullable<Text>, Nullable<Text>)
}

/// If the user has [`MOST`] sessions in the tenant, the oldest one ends.
///
/// # Errors
/// A constraint error if the user is no longer a member (`sessions_membership_fkey`).
pub async fn create(conn: &mut Conn, new: NewSession<'_>) -> DbResult<SessionRecord> {
    let NewSession { tenant, id, user, hash, user_agent, address, idle_seconds, seconds } = new;
    let KeyHash { ring_key, hash } = hash;
    let ring_key = ring_key.as_deref();
    let create =
        Create { tenant, id, user, hash, ring_key, user_agent, address, idle_seconds, seconds, most: MOST };
    Ok(create.get_result(conn).await?)
}

statement! {
    /// A database function, because the tenant is not known yet.
    Find = "sessions/sessions_find.sql", (id: SessionId as SqlUuid) -> (
        SqlUuid, SqlUuid, Bytea, Nullable<Text>, SqlUuid, Text, Text, Bool, Bool, Bool, Bool,
    )
}

#[derive(Debug, Clone, Queryable)]
pub struct FoundSession {
    pub tenant: TenantId,
    pub id: SessionId,
    hash: Vec<u8>,
    ring_key: Option<String>,
    pub user: UserId,
    pub email: String,
    pub role: Role,
    is_system_operator: bool,
    is_active: bool,
    is_over: bool,
    pub is_to_be_touched: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// A different session with the same id, or an ended one.
    #[error("there is no such session; sign in again")]
    Wrong,
    #[error("the session has ended; sign in again")]
    Over,
    #[error("the user of the session is deactivated")]
    Inactive,
    #[error(transparent)]
    Unverifiable(#[from] UnknownRingKey),
}

impl FoundSession {
    /// Verifies the presented token.
    ///
    /// # Errors
    /// A different or invalid session. A mismatch is checked first, so that guessing reveals
    /// nothing about its state.
    pub fn verify(
        &self,
        shown: &SessionToken,
        ring: Option<&SecretKeys>,
    ) -> Result<Permissions, SessionRefusal> {
        if !shown.fits(&self.hash, self.ring_key.as_deref(), ring)? {
            return Err(SessionRefusal::Wrong);
        }
        if self.is_over {
            return Err(SessionRefusal::Over);
        }
        if !self.is_active {
            return Err(SessionRefusal::Inactive);
        }
        let principal = Principal::Member { role: self.role, is_system_operator: self.is_system_operator };
        Ok(principal.permissions(None))
    }
}

pub async fn find(conn: &mut Conn, id: SessionId) -> DbResult<Option<FoundSession>> {
    Ok(Find { id }.get_result(conn).await.optional()?)
}

statement! {
    /// Stops several processes from writing in the same minute.
    Touch = "sessions/sessions_touch.sql", (idle_seconds: f64 as Double, tenant: TenantId as SqlUuid, id: SessionId as SqlUuid) -> ()
}

/// Records the use of a session, at most once a minute: the session may then be idle for
/// `idle_seconds` from now on.
pub async fn touch(conn: &mut Conn, tenant: TenantId, id: SessionId, idle_seconds: f64) -> DbResult<()> {
    Touch { idle_seconds, tenant, id }.execute(conn).await?;
    Ok(())
}

/// The sessions of a user in the tenant, newest first; at most [`MOST`].
pub async fn list(conn: &mut Conn, tenant: TenantId, user: UserId) -> DbResult<Vec<SessionRecord>> {
    use sessions as s;
    let own = s::table.filter(s::tenant_id.eq(tenant).and(s::user_id.eq(user)));
    let own =
        own.filter(s::idle_until.gt(database_clock::clock_timestamp())).order((s::created_at.desc(), s::id));
    Ok(own.limit(MOST).select(SessionRecord::as_select()).load(conn).await?)
}

pub async fn get(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    id: SessionId,
) -> DbResult<Option<SessionRecord>> {
    let own = sessions::table.find((tenant, id)).filter(sessions::user_id.eq(user));
    Ok(own.select(SessionRecord::as_select()).first(conn).await.optional()?)
}

pub async fn end(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    id: SessionId,
) -> DbResult<Option<SessionRecord>> {
    let own = sessions::table.find((tenant, id)).filter(sessions::user_id.eq(user));
    let ended = diesel::delete(own).returning(SessionRecord::as_returning());
    Ok(ended.get_result(conn).await.optional()?)
}
