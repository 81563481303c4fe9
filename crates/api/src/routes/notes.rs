//! What is to be told of a change of several things: gathered while they are written, and written last, since the audit log and the
//! events come last in the order of locks. In the transaction of the change: a process that dies has told nothing and changed nothing.

use sched_model::db::audit::AuditEntry;
use sched_model::db::events::NewEvent;
use sched_model::db::{Conn, DbResult, audit, events};

/// What is to be told of a change.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// For the audit log.
    pub(super) entries: Vec<AuditEntry>,
    /// For those who listen.
    pub(super) events: Vec<NewEvent>,
}

impl Notes {
    /// Tells it.
    pub(super) async fn write(&self, conn: &mut Conn) -> DbResult<()> {
        audit::write(conn, &self.entries).await?;
        events::append(conn, &self.events).await
    }
}
