//! The audit log: who changed what, written in the transaction of the change and never updated.

use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use super::schema::audit_log;
use super::{Conn, DbResult};
use crate::domain::ids::TenantId;

/// One change.
#[derive(Debug, Clone, Insertable)]
#[diesel(table_name = audit_log, check_for_backend(diesel::pg::Pg))]
pub struct AuditEntry {
    /// Tenant it happened in.
    pub tenant_id: Option<TenantId>,
    /// Who did it.
    pub actor: String,
    /// What was done, in `snake_case`.
    pub action: &'static str,
    /// Kind of thing it was done to.
    pub target_type: &'static str,
    /// Which one.
    pub target_id: String,
    /// The thing before, without secrets.
    pub before: Option<serde_json::Value>,
    /// The thing after, without secrets.
    pub after: Option<serde_json::Value>,
    /// Request that caused it.
    pub request_id: Option<String>,
}

/// Writes entries.
///
/// # Errors
/// When the database cannot be asked; the change is then rolled back with it.
pub async fn write(conn: &mut Conn, entries: &[AuditEntry]) -> DbResult<()> {
    if !entries.is_empty() {
        diesel::insert_into(audit_log::table).values(entries).execute(conn).await?;
    }
    Ok(())
}
