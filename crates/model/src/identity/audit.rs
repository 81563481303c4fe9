//! The audit log: entries are written in the transaction of the change and never updated.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Array, Jsonb, Nullable, Text, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use serde_json::json;

use crate::connection::statement::column;
use crate::events::append::{self, NewEvent};
use crate::schema::audit_log;
use crate::{Conn, DbResult};
use sched_domain::ids::TenantId;

#[derive(Debug, Clone)]
pub struct AuditEntry {
    pub tenant_id: Option<TenantId>,
    pub actor: String,
    /// Action, in `snake_case`.
    pub action: &'static str,
    pub target_type: &'static str,
    pub target_id: String,
    /// The resource before the change, without secrets.
    pub before: Option<serde_json::Value>,
    /// The resource after the change, without secrets.
    pub after: Option<serde_json::Value>,
    pub request_id: Option<String>,
    /// Network address of the client; `None` without a request.
    pub address: Option<String>,
}

/// Writes entries, and the events of changes that have one.
///
/// # Errors
/// The change then rolls back.
pub async fn write(conn: &mut Conn, entries: &[AuditEntry]) -> DbResult<()> {
    if entries.is_empty() {
        return Ok(());
    }
    insert(conn, entries).await?;
    append::append(conn, &entries.iter().filter_map(event_of).collect::<Vec<_>>()).await
}

statement! {
    /// The query builder generates a new text for each batch, which is never prepared.
    Insert<'a> = "audit/audit_write.sql", (
        tenants: &'a [Option<TenantId>] as Array<Nullable<SqlUuid>>,
        actors: &'a [&'a str] as Array<Text>,
        actions: &'a [&'a str] as Array<Text>,
        target_types: &'a [&'a str] as Array<Text>,
        targets: &'a [&'a str] as Array<Text>,
        before: &'a [Option<&'a serde_json::Value>] as Array<Nullable<Jsonb>>,
        after: &'a [Option<&'a serde_json::Value>] as Array<Nullable<Jsonb>>,
        requests: &'a [Option<&'a str>] as Array<Nullable<Text>>,
        addresses: &'a [Option<&'a str>] as Array<Nullable<Text>>,
    ) -> ()
}

/// Writes entries of which no event is published.
pub(crate) async fn insert(conn: &Conn, entries: &[AuditEntry]) -> diesel::QueryResult<usize> {
    Insert {
        tenants: &column(entries, |entry| entry.tenant_id),
        actors: &column(entries, |entry| entry.actor.as_str()),
        actions: &column(entries, |entry| entry.action),
        target_types: &column(entries, |entry| entry.target_type),
        targets: &column(entries, |entry| entry.target_id.as_str()),
        before: &column(entries, |entry| entry.before.as_ref()),
        after: &column(entries, |entry| entry.after.as_ref()),
        requests: &column(entries, |entry| entry.request_id.as_deref()),
        addresses: &column(entries, |entry| entry.address.as_deref()),
    }
    .execute(&mut { conn })
    .await
}

#[derive(Debug, Clone, Queryable)]
pub struct AuditRecord {
    pub id: i64,
    pub created_at: DateTime<Utc>,
    pub tenant_id: Option<TenantId>,
    pub actor: String,
    pub action: String,
    pub target_type: String,
    pub target_id: String,
    pub before: Option<serde_json::Value>,
    pub after: Option<serde_json::Value>,
    pub request_id: Option<String>,
    pub address: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditFilter {
    pub tenant: TenantId,
    pub with_installation: bool,
    pub actor: Option<String>,
    pub action: Option<String>,
    pub target_type: Option<String>,
    pub target_id: Option<String>,
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
    pub after: Option<i64>,
    /// Oldest first instead of newest first.
    pub oldest_first: bool,
}

pub async fn list(conn: &mut Conn, filter: &AuditFilter, limit: i64) -> DbResult<Vec<AuditRecord>> {
    use audit_log as a;
    let mut query = a::table.limit(limit).into_boxed();
    query = if filter.oldest_first { query.order(a::id.asc()) } else { query.order(a::id.desc()) };
    query = if filter.with_installation {
        query.filter(a::tenant_id.eq(filter.tenant).or(a::tenant_id.is_null()))
    } else {
        query.filter(a::tenant_id.eq(filter.tenant))
    };
    if let Some(actor) = &filter.actor {
        query = query.filter(a::actor.eq(actor));
    }
    if let Some(action) = &filter.action {
        query = query.filter(a::action.eq(action));
    }
    if let Some(target_type) = &filter.target_type {
        // Earlier versions stored `dispatch` for a run.
        let stored = if target_type == "run" { vec!["run", "dispatch"] } else { vec![target_type.as_str()] };
        query = query.filter(a::target_type.eq_any(stored));
    }
    if let Some(target) = &filter.target_id {
        query = query.filter(a::target_id.eq(target));
    }
    if let Some(since) = filter.since {
        query = query.filter(a::created_at.ge(since));
    }
    if let Some(until) = filter.until {
        query = query.filter(a::created_at.lt(until));
    }
    query = match (filter.after, filter.oldest_first) {
        (Some(after), true) => query.filter(a::id.gt(after)),
        (Some(after), false) => query.filter(a::id.lt(after)),
        (None, _) => query,
    };
    Ok(query.load(conn).await?)
}

/// The entry with this id, if it belongs to the tenant, or to the installation and the caller may
/// see those entries.
pub async fn by_id(
    conn: &mut Conn,
    tenant: TenantId,
    with_installation: bool,
    id: i64,
) -> DbResult<Option<AuditRecord>> {
    use audit_log as a;
    let mut query = a::table.filter(a::id.eq(id)).into_boxed();
    query = if with_installation {
        query.filter(a::tenant_id.eq(tenant).or(a::tenant_id.is_null()))
    } else {
        query.filter(a::tenant_id.eq(tenant))
    };
    Ok(query.get_result(conn).await.optional()?)
}

/// The event of a queue's change. The writers of other changes append their own events.
fn event_of(entry: &AuditEntry) -> Option<NewEvent> {
    let event_type = match entry.action {
        "create_queue" => append::QUEUE_CREATED,
        "update_queue" => append::QUEUE_UPDATED,
        _ => return None,
    };
    let name = entry.after.as_ref().or(entry.before.as_ref()).and_then(|shown| shown.get("name"));
    // The actor's public name: an e-mail address, or a key's prefix.
    let by = entry.actor.split_once(" via ").map_or(entry.actor.as_str(), |(user, _)| user);
    Some(NewEvent {
        tenant_id: entry.tenant_id,
        project_id: None,
        job_id: None,
        dispatch_id: None,
        event_type,
        payload: json!({"name": name, "by": by}),
    })
}
