//! Sessions of people who signed in: begun, found by what their browser shows, listed, ended. What it shows is nowhere here, only its hash.
//!
//! A session is found by one read of one index, with everything that decides what it may do. That it is used is noted once a minute at
//! most, which puts off its end. One that ends is removed; a change of the password and the end of an account remove those of the user
//! by themselves (a trigger on `users`). What is over is removed by who signs in next ([`super::sign_ins::note`]).

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Bytea, Double, Nullable, Text, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use crate::schema::sessions;
use crate::{Conn, DbResult, connection::database_clock};
use sched_domain::identity::{KeyHash, Permissions, Role, SessionToken, Standing, UnknownRingKey};
use sched_domain::ids::{SessionId, TenantId, UserId};
use sched_domain::secret::SecretKeys;

/// Most sessions that a user has in a tenant.
pub const MOST: i64 = 50;

/// What is told of a session.
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

/// A session to be begun.
#[derive(Debug, Clone, Copy)]
pub struct NewSession<'a> {
    /// The tenant it acts in.
    pub tenant: TenantId,
    /// Its id.
    pub id: SessionId,
    /// Who signed in, a member of the tenant.
    pub user: UserId,
    /// What is kept of what the browser shows.
    pub hash: &'a KeyHash,
    /// What the browser says that it is, at most 200 characters.
    pub user_agent: Option<&'a str>,
    /// Where it is.
    pub address: Option<&'a str>,
    /// How long it may go unused, in seconds.
    pub idle_seconds: f64,
    /// How long it lasts at most, in seconds.
    pub seconds: f64,
}

statement! {
    /// Raw because its ends are reckoned from one look at the clock, and others make room in the same statement.
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

/// Begins a session. Of a user who has [`MOST`] in the tenant the oldest ends.
///
/// # Errors
/// A constraint when the user is no member of the tenant any more (`sessions_membership_fkey`).
pub async fn create(conn: &mut Conn, new: NewSession<'_>) -> DbResult<SessionRecord> {
    let NewSession { tenant, id, user, hash, user_agent, address, idle_seconds, seconds } = new;
    let KeyHash { ring_key, hash } = hash;
    let ring_key = ring_key.as_deref();
    let create =
        Create { tenant, id, user, hash, ring_key, user_agent, address, idle_seconds, seconds, most: MOST };
    Ok(create.get_result(conn).await?)
}

statement! {
    /// Raw because it is a door: the tenant is not known yet.
    Find = "sessions/sessions_find.sql", (id: SessionId as SqlUuid) -> (
        SqlUuid, SqlUuid, Bytea, Nullable<Text>, SqlUuid, Text, Text, Bool, Bool, Bool, Bool,
    )
}

/// A session that is kept under an id, with all that decides what it may do.
#[derive(Debug, Clone, Queryable)]
pub struct FoundSession {
    /// The tenant it acts in.
    pub tenant: TenantId,
    /// Its id.
    pub id: SessionId,
    hash: Vec<u8>,
    ring_key: Option<String>,
    /// Who signed in.
    pub user: UserId,
    /// The address of that.
    pub email: String,
    /// What that is in the tenant.
    pub role: Role,
    is_system_operator: bool,
    is_active: bool,
    is_over: bool,
    /// Whether its last use was so long ago that it is to be noted anew.
    pub is_to_be_touched: bool,
}

/// Why a session that is kept is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// Another one with the same id, or one that has ended.
    #[error("there is no such session; sign in again")]
    Wrong,
    /// Its time is over.
    #[error("the session has ended; sign in again")]
    Over,
    /// Its user may not sign in any more.
    #[error("the user of the session is deactivated")]
    Inactive,
    /// Nobody can tell whether it is right.
    #[error(transparent)]
    Unverifiable(#[from] UnknownRingKey),
}

impl FoundSession {
    /// What the session may do whose token is shown.
    ///
    /// # Errors
    /// It is another, or none any more. That it is another is told first, so that who guesses learns nothing of its state.
    pub fn judge(
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
        let standing = Standing::Member { role: self.role, is_system_operator: self.is_system_operator };
        Ok(standing.permissions(None))
    }
}

/// The session that is kept under this id.
pub async fn find(conn: &mut Conn, id: SessionId) -> DbResult<Option<FoundSession>> {
    Ok(Find { id }.get_result(conn).await.optional()?)
}

statement! {
    /// Raw for its condition, which keeps several processes from noting the same minute.
    Touch = "sessions/sessions_touch.sql", (idle_seconds: f64 as Double, tenant: TenantId as SqlUuid, id: SessionId as SqlUuid) -> ()
}

/// Notes that a session is used, unless that was noted within the last minute: it may go unused for `idle_seconds` from now on.
pub async fn touch(conn: &mut Conn, tenant: TenantId, id: SessionId, idle_seconds: f64) -> DbResult<()> {
    Touch { idle_seconds, tenant, id }.execute(conn).await?;
    Ok(())
}

/// The sessions that a user has in the tenant, newest first; never more than [`MOST`].
pub async fn list(conn: &mut Conn, tenant: TenantId, user: UserId) -> DbResult<Vec<SessionRecord>> {
    use sessions as s;
    let own = s::table.filter(s::tenant_id.eq(tenant).and(s::user_id.eq(user)));
    let own =
        own.filter(s::idle_until.gt(database_clock::clock_timestamp())).order((s::created_at.desc(), s::id));
    Ok(own.limit(MOST).select(SessionRecord::as_select()).load(conn).await?)
}

/// A session of a user in the tenant.
pub async fn get(
    conn: &mut Conn,
    tenant: TenantId,
    user: UserId,
    id: SessionId,
) -> DbResult<Option<SessionRecord>> {
    let own = sessions::table.find((tenant, id)).filter(sessions::user_id.eq(user));
    Ok(own.select(SessionRecord::as_select()).first(conn).await.optional()?)
}

/// Ends a session of a user in the tenant; `None` when there is no such session.
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
