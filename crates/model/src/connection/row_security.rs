//! Database roles that isolate tenants, and the scope of a transaction.
//!
//! Row-level security shows [`API_ROLE`] the rows of the tenant in the setting `sched.tenant`,
//! which applies to one transaction. Without it no row is visible. Members of [`DAEMON_ROLE`] and of
//! [`WORKER_ROLE`] see every row. At startup an API that could bypass row-level security, or a
//! daemon that it would block, refuses to run.

use std::time::Duration;

use diesel::sql_types::{Array, Bool, Nullable, Text};
use diesel_async::RunQueryDsl;

use super::migrations::SchemaError;
pub use super::role_error::RoleError;
use crate::{Conn, DbError};
use sched_domain::ids::TenantId;

pub const API_ROLE: &str = "sched_api";
/// Schedulers and `schedctl --direct` are members of this role.
pub const DAEMON_ROLE: &str = "sched_daemon";
/// Workers are members of this role, or of [`DAEMON_ROLE`].
pub const WORKER_ROLE: &str = "sched_worker";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    tenant: Option<TenantId>,
    is_system: bool,
    is_read_only: bool,
    is_following: bool,
    has_general_plans: bool,
    within: Option<Duration>,
}

impl Scope {
    #[must_use]
    pub const fn tenant(tenant: TenantId) -> Self {
        Self { tenant: Some(tenant), ..Self::no_tenant() }
    }

    /// No tenant's rows: only the database functions that need no tenant.
    #[must_use]
    pub const fn no_tenant() -> Self {
        Self {
            tenant: None,
            is_system: false,
            is_read_only: false,
            is_following: false,
            has_general_plans: false,
            within: None,
        }
    }

    /// For system operators: the rows of the installation, and the management of tenants.
    #[must_use]
    pub const fn with_installation(self) -> Self {
        Self { is_system: true, ..self }
    }

    /// Adds the events of all tenants, for the one reader that feeds the tenants' event streams.
    #[must_use]
    pub const fn following(self) -> Self {
        Self { is_following: true, ..self }
    }

    #[must_use]
    pub const fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    #[must_use]
    pub const fn within(self, limit: Duration) -> Self {
        Self { within: Some(limit), ..self }
    }

    /// Uses generic plans, planned once per connection. For statements that have one plan for all
    /// values and take longer to plan than to run.
    #[must_use]
    pub const fn with_general_plans(self) -> Self {
        Self { has_general_plans: true, ..self }
    }

    /// Begins a transaction and sets the scope, in one message. All parts are generated, so nothing
    /// needs escaping.
    pub(crate) fn begin(self) -> String {
        let mode = if self.is_read_only { " READ ONLY" } else { "" };
        let tenant = self.tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
        let system = if self.is_system { "on" } else { "" };
        // It ends with the transaction.
        let follow = if self.is_following { ", set_config('sched.follow', 'on', true)" } else { "" };
        let plans = if self.has_general_plans {
            ", set_config('plan_cache_mode', 'force_generic_plan', true)"
        } else {
            ""
        };
        let limit = self
            .within
            .map(|limit| format!(", set_config('statement_timeout', '{}', true)", limit.as_millis().max(1)));
        let limit = limit.unwrap_or_default();
        format!(
            "BEGIN{mode}; SELECT set_config('role', '{API_ROLE}', true), set_config('sched.tenant', '{tenant}', true), \
             set_config('sched.system', '{system}', true){follow}{plans}{limit}"
        )
    }
}

statement! {
    LookAtApi<'a> = "row_security/roles_api.sql", (role: &'a str as Text) -> (
        Text, Bool, Bool, Bool, Nullable<Text>, Nullable<Text>, Nullable<Text>,
    )
}

type ApiRow = (String, bool, bool, bool, Option<String>, Option<String>, Option<String>);

/// Checks that the login can act as the API's role, and that row-level security restricts it.
///
/// # Errors
/// The error names the fix.
pub async fn check_api(conn: &mut Conn, role: &str) -> Result<(), SchemaError> {
    let row: ApiRow = LookAtApi { role }.get_result(conn).await.map_err(DbError::from)?;
    let (login, exists, is_member, bypasses, others, owned, off) = row;
    let role = role.to_owned();
    let error = match (others, owned, off) {
        _ if !exists => RoleError::Missing(role),
        _ if !is_member => RoleError::NotAMember { login, role },
        _ if bypasses => RoleError::Bypasses(role),
        (Some(others), _, _) => RoleError::MayBecome { role, others },
        (_, Some(tables), _) => RoleError::Owns { role, tables },
        (_, _, Some(tables)) => RoleError::Off(tables),
        (None, None, None) => return Ok(()),
    };
    Err(error.into())
}

statement! {
    LookAtDaemon<'a> = "row_security/roles_daemon.sql", (roles: &'a [&'a str] as Array<Text>) -> (Text, Bool)
}

/// Checks that the login sees the rows of all tenants.
///
/// # Errors
/// The error names the fix.
pub async fn check_daemon(conn: &mut Conn) -> Result<(), SchemaError> {
    check_member(conn, &[DAEMON_ROLE]).await
}

/// Checks that the login has the rights of a worker.
///
/// # Errors
/// The error names the fix.
pub async fn check_worker(conn: &mut Conn) -> Result<(), SchemaError> {
    check_member(conn, &[WORKER_ROLE, DAEMON_ROLE]).await
}

/// Checks that the login is a member of one of the roles, or bypasses row-level security. The error
/// names the first one.
async fn check_member(conn: &mut Conn, roles: &[&str]) -> Result<(), SchemaError> {
    let look = LookAtDaemon { roles };
    let (login, sees_all): (String, bool) = look.get_result(conn).await.map_err(DbError::from)?;
    if sees_all {
        return Ok(());
    }
    let role = <[&str]>::first(roles).copied().unwrap_or_default().to_owned();
    Err(RoleError::SeesNothing { login, role }.into())
}

statement! {
    LookAtOwner = "row_security/roles_owner.sql", () -> (Text, Text, Bool)
}

/// Checks that the login may create and drop partitions, as schedulers do.
///
/// # Errors
/// The error names the fix.
pub async fn check_owner(conn: &mut Conn) -> Result<(), SchemaError> {
    let (login, owner, is_owner): (String, String, bool) =
        LookAtOwner {}.get_result(conn).await.map_err(DbError::from)?;
    if is_owner { Ok(()) } else { Err(RoleError::NotTheOwner { login, owner }.into()) }
}
