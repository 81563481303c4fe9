//! Audit entries and events of a change of several resources. They are written last, because the
//! audit log and the events are last in the lock order. All in one transaction: a process that dies
//! has written nothing.

use std::collections::BTreeSet;

use sched_model::domain::changes::differences;
use sched_model::events::append::NewEvent;
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, DbResult, events::append, identity::audit};
use sched_wire::{Change, FieldChange};
use serde_json::Value;

#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(super) entries: Vec<AuditEntry>,
    pub(super) events: Vec<NewEvent>,
    /// Names of secrets in written functions.
    pub(super) secrets: BTreeSet<String>,
}

impl Notes {
    /// Of the last noted change. Empty unless it was an update.
    pub(super) fn fields(&self, change: Change) -> Vec<FieldChange> {
        let entry = self.entries.last().filter(|_| change == Change::Updated);
        let both = entry.and_then(|entry| entry.before.as_ref().zip(entry.after.as_ref()));
        both.map_or_else(Vec::new, |(before, after)| field_changes(before, after))
    }

    pub(super) async fn write(&self, conn: &mut Conn) -> DbResult<()> {
        audit::write(conn, &self.entries).await?;
        append::append(conn, &self.events).await
    }
}

pub(super) fn field_changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let differences = differences(before, after).into_iter();
    differences
        .map(|one| FieldChange { pointer: one.pointer, before: one.before, after: one.after })
        .collect()
}
