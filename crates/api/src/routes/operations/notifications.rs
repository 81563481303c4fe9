//! Notifications: channels, rules and deliveries.
//!
//! A write replaces the whole resource, in one transaction with its audit entry. These routes send
//! nothing: a test is queued, and the leader sends it like any other message.

pub(crate) mod applied;
pub(crate) mod channels;
pub(crate) mod deliveries;
pub(crate) mod rules;

use sched_model::identity::audit::AuditEntry;
use serde::Serialize;

use super::auditing::plain;
use crate::convert::manifest::MOST_NOTIFICATIONS;
use crate::error::ApiError;
use crate::error::field_error::FieldError;
use crate::identity::Actor;

fn entry<T: Serialize>(
    (action, target_type, name): (&'static str, &'static str, &str),
    before: Option<&T>,
    after: Option<&T>,
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
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

/// Rows to read: one more than `MOST_NOTIFICATIONS`, to detect one too many.
const LOOKED_AT: i64 = 101;

fn at_most(count: usize, at: &str, kind: &str) -> Result<(), ApiError> {
    if count <= MOST_NOTIFICATIONS {
        return Ok(());
    }
    let message = format!("the tenant would have more than {MOST_NOTIFICATIONS}; delete a {kind} first");
    Err(ApiError::Refused(vec![FieldError::invalid(at, message)]))
}
