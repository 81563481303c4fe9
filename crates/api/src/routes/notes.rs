//! What is to be told of a change of several things: gathered while they are written, and written last, since the audit log and the
//! events come last in the order of locks. In the transaction of the change: a process that dies has told nothing and changed nothing.

use sched_model::domain::changes::differences;
use sched_model::events::append::NewEvent;
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, DbResult, events::append, identity::audit};
use sched_wire::{Change, FieldChange};
use serde_json::Value;

/// What is to be told of a change.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// For the audit log.
    pub(super) entries: Vec<AuditEntry>,
    /// For those who listen.
    pub(super) events: Vec<NewEvent>,
}

impl Notes {
    /// What the change that was noted last made another, field by field, as far as the audit log may know it; nothing unless it was an update.
    pub(super) fn fields(&self, change: Change) -> Vec<FieldChange> {
        let entry = self.entries.last().filter(|_| change == Change::Updated);
        let both = entry.and_then(|entry| entry.before.as_ref().zip(entry.after.as_ref()));
        both.map_or_else(Vec::new, |(before, after)| field_changes(before, after))
    }

    /// Tells it.
    pub(super) async fn write(&self, conn: &mut Conn) -> DbResult<()> {
        audit::write(conn, &self.entries).await?;
        append::append(conn, &self.events).await
    }
}

/// What differs between two forms of the same thing, field by field.
pub(super) fn field_changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let differences = differences(before, after).into_iter();
    differences
        .map(|one| FieldChange { pointer: one.pointer, before: one.before, after: one.after })
        .collect()
}
