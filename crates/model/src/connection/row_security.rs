//! The database roles behind which tenants are kept apart, and how a transaction says whose it is.
//!
//! Row-level security (migration 27) shows [`API_ROLE`] the rows of one tenant: the one in the setting `sched.tenant`, which counts for one
//! transaction. Where it is missing nothing is seen. Members of [`DAEMON_ROLE`] see every row. Both are looked at before a daemon works:
//! an API that could pass the wall, or a daemon that would run into it, does not start. Reads only; nothing to lose.

use std::time::Duration;

use diesel::sql_types::{Bool, Nullable, Text};
use diesel_async::RunQueryDsl;

use super::migrations::SchemaError;
use crate::{Conn, DbError};
use sched_domain::ids::TenantId;

/// What the API is in the database.
pub const API_ROLE: &str = "sched_api";
/// What schedulers, workers and `schedctl --direct` are members of.
pub const DAEMON_ROLE: &str = "sched_daemon";

/// Whose rows a transaction sees.
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
    /// Those of a tenant.
    #[must_use]
    pub const fn tenant(tenant: TenantId) -> Self {
        Self { tenant: Some(tenant), ..Self::nobody() }
    }

    /// Nobody's: what the doors find, which need no tenant.
    #[must_use]
    pub const fn nobody() -> Self {
        Self {
            tenant: None,
            is_system: false,
            is_read_only: false,
            is_following: false,
            has_general_plans: false,
            within: None,
        }
    }

    /// Besides, what belongs to the installation, and what makes and leads tenants. For system operators.
    #[must_use]
    pub const fn with_installation(self) -> Self {
        Self { is_system: true, ..self }
    }

    /// Besides, the events of everybody, for the one reader of a process that feeds those who follow their own.
    #[must_use]
    pub const fn following(self) -> Self {
        Self { is_following: true, ..self }
    }

    /// Nothing is written.
    #[must_use]
    pub const fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    /// No statement may take longer.
    #[must_use]
    pub const fn within(self, limit: Duration) -> Self {
        Self { within: Some(limit), ..self }
    }

    /// Its statements are planned once for a connection, and not anew for what is asked each time. For those whose plan is the same in any
    /// case and takes longer to find than to follow.
    #[must_use]
    pub const fn with_general_plans(self) -> Self {
        Self { has_general_plans: true, ..self }
    }

    /// Begins a transaction and says all of this, in one message. Its parts are of our own making, so nothing has to be escaped.
    pub(crate) fn begin(self) -> String {
        let mode = if self.is_read_only { " READ ONLY" } else { "" };
        let tenant = self.tenant.map(|tenant| tenant.to_string()).unwrap_or_default();
        let system = if self.is_system { "on" } else { "" };
        // Set only where it is wanted, and gone with the transaction.
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

/// Why a daemon cannot be what it is to be in the database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoleError {
    /// The migrations make it; somebody dropped it.
    #[error(
        "the database server has no role {0}, which keeps tenants apart; make it again with `schedctl migrate down --steps 1` and \
         `schedctl migrate up`, as often as it takes to go behind migration 2026-11-22-000027"
    )]
    Missing(String),
    /// Whoever signs in may not become it.
    #[error(
        "{login:?} is no member of the role {role}, as which it is to act; an administrator of the database mends it: \
         GRANT {role} TO \"{login}\""
    )]
    NotAMember {
        /// Who signs in.
        login: String,
        /// The role.
        role: String,
    },
    /// Row-level security does not hold it.
    #[error(
        "the role {0} passes by row-level security, which keeps tenants apart; an administrator of the database mends it: \
         ALTER ROLE {0} NOSUPERUSER NOBYPASSRLS"
    )]
    Bypasses(String),
    /// It is a member of those whom row-level security does not hold.
    #[error(
        "the role {role} may become {others}, before whom tenants are not kept apart; an administrator of the database mends it: \
         REVOKE {others} FROM {role}"
    )]
    MayBecome {
        /// The role.
        role: String,
        /// What it may become.
        others: String,
    },
    /// It owns tables, whose security it could take off.
    #[error(
        "the role {role} owns {tables}, and could take off their row-level security; an administrator of the database mends it: \
         ALTER TABLE … OWNER TO the owner of the others"
    )]
    Owns {
        /// The role.
        role: String,
        /// Its tables.
        tables: String,
    },
    /// Somebody has taken it off.
    #[error(
        "row-level security, which keeps tenants apart, is off for {0}; their owner mends it: \
         ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    )]
    Off(String),
    /// A scheduler could make no months of history.
    #[error(
        "{login:?} may not act as {owner:?}, who owns the tables, and a scheduler makes and drops the months of history; let it sign in as \
         {owner:?}, or: GRANT \"{owner}\" TO \"{login}\""
    )]
    NotTheOwner {
        /// Who signs in.
        login: String,
        /// Who owns the tables.
        owner: String,
    },
    /// A daemon that serves all tenants would see nothing.
    #[error(
        "{login:?} is no member of the role {role} and so sees the rows of no tenant; an administrator of the database mends it: \
         GRANT {role} TO \"{login}\""
    )]
    SeesNothing {
        /// Who signs in.
        login: String,
        /// The role.
        role: String,
    },
}

statement! {
    /// Raw because it reads the catalogue.
    LookAtApi<'a> = "row_security/roles_api.sql", (role: &'a str as Text) -> (
        Text, Bool, Bool, Bool, Nullable<Text>, Nullable<Text>, Nullable<Text>,
    )
}

type ApiRow = (String, bool, bool, bool, Option<String>, Option<String>, Option<String>);

/// Whether whoever signs in can act as the API's role, and whether row-level security holds that role.
///
/// # Errors
/// When it does not, with what mends it, or when the database cannot be asked.
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
    /// Raw because it reads the catalogue.
    LookAtDaemon<'a> = "row_security/roles_daemon.sql", (role: &'a str as Text) -> (Text, Bool)
}

/// Whether whoever signs in sees the rows of all tenants.
///
/// # Errors
/// When they do not, with what mends it, or when the database cannot be asked.
pub async fn check_daemon(conn: &mut Conn) -> Result<(), SchemaError> {
    let look = LookAtDaemon { role: DAEMON_ROLE };
    let (login, sees_all): (String, bool) = look.get_result(conn).await.map_err(DbError::from)?;
    if sees_all {
        return Ok(());
    }
    Err(RoleError::SeesNothing { login, role: DAEMON_ROLE.to_owned() }.into())
}

statement! {
    /// Raw because it reads the catalogue.
    LookAtOwner = "row_security/roles_owner.sql", () -> (Text, Text, Bool)
}

/// Whether whoever signs in may make and drop the months of history, as schedulers do.
///
/// # Errors
/// When they may not, with what mends it, or when the database cannot be asked.
pub async fn check_owner(conn: &mut Conn) -> Result<(), SchemaError> {
    let (login, owner, is_owner): (String, String, bool) =
        LookAtOwner {}.get_result(conn).await.map_err(DbError::from)?;
    if is_owner { Ok(()) } else { Err(RoleError::NotTheOwner { login, owner }.into()) }
}
