//! Access to the database while the tenant of a request is unknown.

use sched_model::domain::ids::TenantId;

/// Permission to read the database without a tenant. Only the module `identity` creates it.
#[derive(Debug)]
pub(crate) struct BeforeTenant(pub(super) ());

/// The tenant of a caller that a lookup without a tenant found. Only the module `identity` creates
/// it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TenantOfCaller(pub(super) TenantId);

impl TenantOfCaller {
    pub(crate) const fn id(self) -> TenantId {
        self.0
    }
}
