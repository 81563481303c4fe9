//! Notifications: where they go, what they are sent for, and what became of each.
//!
//! A name says which; a write says what it should be, so repeating one is harmless. A change is one transaction with its entry in the
//! audit log. Nothing is sent here: a test is asked for, and the leader has it sent like any other message.

pub(crate) mod applied;
pub(crate) mod channels;
pub(crate) mod deliveries;
pub(crate) mod rules;

use sched_model::domain::ids::TenantId;
use sched_model::identity::audit::AuditEntry;
use serde::Serialize;

use super::auditing::plain;
use crate::convert::manifest::MOST_NOTIFICATIONS;
use crate::error::ApiError;
use crate::error::field_error::FieldError;
use crate::identity::Actor;

/// The entry of the audit log for a change of a channel or a rule.
fn entry<T: Serialize>(
    (tenant, by): (TenantId, &Actor),
    (action, target_type, name): (&'static str, &'static str, &str),
    before: Option<&T>,
    after: Option<&T>,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(tenant),
        actor: by.actor.clone(),
        action,
        target_type,
        target_id: name.to_owned(),
        before: before.map(plain),
        after: after.map(plain),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// How many are looked at to see whether there are more.
const LOOKED_AT: i64 = 101;

/// Refuses what was written at `at` when it was one too many.
fn at_most(count: usize, at: &str, kind: &str) -> Result<(), ApiError> {
    if count <= MOST_NOTIFICATIONS {
        return Ok(());
    }
    let message = format!("the tenant would have more than {MOST_NOTIFICATIONS}; delete a {kind} first");
    Err(ApiError::Refused(vec![FieldError::invalid(at, message)]))
}
