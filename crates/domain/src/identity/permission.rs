//! Roles, permissions and scopes.
//!
//! Every route requires one permission, whose word is also the scope that limits a key to it. Each
//! permission names the lowest role that has it, so one function holds the whole table. Pure.

pub use sched_vocabulary::identity::Role;
use sched_vocabulary::text_enum;
use std::fmt;

text_enum! {
    pub enum Permission {
        /// Jobs, projects, task functions, calendars, previews, explanations, the overview, the use
        /// of quotas.
        JobsRead = "jobs:read",
        JobsWrite = "jobs:write",
        /// Pause, resume, enable and disable jobs; pause projects and task functions.
        JobsOperate = "jobs:operate",
        JobsTrigger = "jobs:trigger",
        RunsRead = "runs:read",
        RunsOperate = "runs:operate",
        QueuesRead = "queues:read",
        QueuesWrite = "queues:write",
        /// No permission reads their values.
        SecretsRead = "secrets:read",
        SecretsWrite = "secrets:write",
        KeysRead = "keys:read",
        KeysWrite = "keys:write",
        MembersRead = "members:read",
        MembersWrite = "members:write",
        AuditRead = "audit:read",
        /// Workers and schedulers, which serve all tenants.
        FleetRead = "fleet:read",
        /// Tenants, their quotas, users, leadership, workers, kinds of schedule, the keys of
        /// secrets.
        SystemOperate = "system:operate",
    }
}

impl Permission {
    /// `None` if it concerns the installation and not a tenant.
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

    pub fn iter(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.iter().copied().filter(move |permission| self.has(*permission))
    }

    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Principal {
    Member {
        role: Role,
        is_system_operator: bool,
    },
    /// A key of the tenant, not of a user. Its scopes alone decide.
    Tenant,
}

impl Principal {
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

/// The scopes of a key from its stored words. `None` means no limit; an unknown word grants
/// nothing.
#[must_use]
pub fn scopes_of<W: AsRef<str>>(words: &[W]) -> Option<Permissions> {
    let known = words.iter().filter_map(|word| word.as_ref().parse().ok());
    (!words.is_empty()).then(|| known.collect())
}
