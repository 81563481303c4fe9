//! Roles, permissions and scopes.
//!
//! Every route requires one permission. The word of a permission is also the scope that limits a
//! key to it. Each permission names the lowest role that has it, so one function holds the whole
//! table. Pure.

pub use sched_vocabulary::identity::Role;
use sched_vocabulary::text_enum;
use std::fmt;

text_enum! {
    /// A permission. The word is also a scope of keys.
    pub enum Permission {
        /// Read jobs, projects, task functions, calendars, previews, explanations, the overview, the use of quotas.
        JobsRead = "jobs:read",
        /// Write and delete jobs, projects, task functions and calendars.
        JobsWrite = "jobs:write",
        /// Pause, resume, enable and disable jobs; pause projects and task functions.
        JobsOperate = "jobs:operate",
        /// Run a job now.
        JobsTrigger = "jobs:trigger",
        /// Read runs, attempts and their output.
        RunsRead = "runs:read",
        /// Cancel and retry runs.
        RunsOperate = "runs:operate",
        /// Read queues.
        QueuesRead = "queues:read",
        /// Pause and delete queues and set their limits.
        QueuesWrite = "queues:write",
        /// List secrets. No permission reads their values.
        SecretsRead = "secrets:read",
        /// Set and delete secrets.
        SecretsWrite = "secrets:write",
        /// List API keys.
        KeysRead = "keys:read",
        /// Create and revoke API keys.
        KeysWrite = "keys:write",
        /// Read the members.
        MembersRead = "members:read",
        /// Change members and their roles.
        MembersWrite = "members:write",
        /// Read the audit log.
        AuditRead = "audit:read",
        /// Read workers and schedulers, which serve all tenants.
        FleetRead = "fleet:read",
        /// Operate the installation: tenants, their quotas, users, leadership, workers, kinds of schedule, the keys of secrets.
        SystemOperate = "system:operate",
    }
}

impl Permission {
    /// The lowest role that has it; `None` if it concerns the installation and not a tenant.
    #[must_use]
    pub const fn least_role(self) -> Option<Role> {
        match self {
            Self::JobsRead | Self::RunsRead | Self::QueuesRead | Self::SecretsRead => Some(Role::Viewer),
            Self::JobsOperate | Self::JobsTrigger | Self::RunsOperate => Some(Role::Operator),
            Self::JobsWrite
            | Self::QueuesWrite
            | Self::SecretsWrite
            | Self::KeysRead
            | Self::KeysWrite
            | Self::MembersRead
            | Self::AuditRead => Some(Role::Admin),
            Self::MembersWrite => Some(Role::Owner),
            Self::FleetRead | Self::SystemOperate => None,
        }
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions(u32);

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(Permission::as_str)).finish()
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |bits, permission| bits | permission.bit()))
    }
}

impl Permissions {
    #[must_use]
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Each of them, in the order of declaration.
    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |permission| self.has(*permission))
    }

    /// The intersection.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// The rights of an identity before its scopes reduce them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A user, in a tenant.
    Member {
        /// The role of the user in the tenant.
        role: Role,
        /// Whether the user also operates the installation.
        is_system_operator: bool,
    },
    /// A key that belongs to the tenant and not to a user. Its scopes alone decide.
    Tenant,
}

impl Standing {
    /// `scopes` are those of a key; `None` means no limit.
    #[must_use]
    pub fn permissions(self, scopes: Option<Permissions>) -> Permissions {
        let may = |permission: &Permission| match self {
            Self::Member { role, is_system_operator } => {
                permission.least_role().map_or(is_system_operator, |least| role >= least)
            }
            Self::Tenant => scopes.is_some() && permission.least_role().is_some(),
        };
        let all: Permissions = Permission::ALL.iter().copied().filter(may).collect();
        scopes.map_or(all, |scopes| all.and(scopes))
    }
}

/// Parses the stored scopes of a key; `None` if it has none, which means no limit. An unknown word
/// grants nothing.
#[must_use]
pub fn scopes_of<W: AsRef<str>>(words: &[W]) -> Option<Permissions> {
    let known = words.iter().filter_map(|word| word.as_ref().parse().ok());
    (!words.is_empty()).then(|| known.collect())
}
