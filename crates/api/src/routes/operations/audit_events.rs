use actix_web::web;
use sched_model::identity::audit::{self, AuditFilter, AuditRecord};
use sched_model::{Conn, connection::database_clock};
use sched_wire::{AuditEvent, AuditQuery, Page, TimeSort};
use serde_json::{Map, Value};

use super::events::{instant, sees_installation};
use crate::convert::hidden::{Sight, hide_variables};
use crate::convert::stored::{public_target_type, public_value};
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::http::pagination::Pages;
use crate::identity::Identity;
use crate::routes::{Answer, State};

/// `GET /audit-events`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<AuditQuery>,
) -> Answer<Page<AuditEvent>> {
    let which = AuditQuery { limit: None, cursor: None, ..query.clone() };
    let pages = Pages::of(&("audit-events", which), query.limit, query.cursor.as_deref())?;
    let after = pages.after_as()?;
    let oldest_first = query.sort == Some(TimeSort::CreatedAt);
    let (tenant, with_installation) = (identity.tenant(), sees_installation(&identity));
    let query = &query;
    let work = async |conn: &mut Conn| {
        let now = database_clock::now(conn).await?;
        let filter = AuditFilter {
            tenant,
            with_installation,
            actor: query.actor.clone(),
            action: query.action.clone(),
            target_type: query.target_type.clone(),
            target_id: query.target_id.clone(),
            since: instant("since", query.since.as_deref(), now)?,
            until: instant("until", query.until.as_deref(), now)?,
            after,
            oldest_first,
        };
        Ok::<_, ApiError>(audit::list(conn, &filter, pages.rows()).await?)
    };
    let rows = if with_installation {
        state.read_installation(&identity, "list_audit_events", work).await?
    } else {
        state.read(&identity, "list_audit_events", work).await?
    };
    let sight = Sight::of(identity.caller().permissions);
    Ok(web::Json(pages.page(rows, |entry| entry.id.to_string(), |entry| show(entry, sight))))
}

/// `GET /audit-events/{entry}`
pub(crate) async fn get(state: State, identity: Identity, id: web::Path<String>) -> Answer<AuditEvent> {
    let no_such_entry = || ApiError::NotFound { kind: "audit event", name: id.as_str().to_owned() };
    let number: i64 = id.parse().map_err(|_no_number| no_such_entry())?;
    let (tenant, with_installation) = (identity.tenant(), sees_installation(&identity));
    let work = async |conn: &mut Conn| {
        audit::by_id(conn, tenant, with_installation, number).await?.ok_or_else(no_such_entry)
    };
    let entry = if with_installation {
        state.read_installation(&identity, "get_audit_event", work).await?
    } else {
        state.read(&identity, "get_audit_event", work).await?
    };
    Ok(web::Json(show(entry, Sight::of(identity.caller().permissions))))
}

fn show(entry: AuditRecord, sight: Sight) -> AuditEvent {
    let is_function = entry.target_type == "task_function";
    let public = |stored: Value| match public_value(stored) {
        Value::Object(members) if is_function => Value::Object(visible(members, sight)),
        other => other,
    };
    AuditEvent {
        id: entry.id,
        at: entry.created_at,
        actor: entry.actor,
        action: entry.action,
        target_type: public_target_type(entry.target_type),
        target_id: entry.target_id,
        before: entry.before.map(public),
        after: entry.after.map(public),
        request_id: entry.request_id,
        address: entry.address,
        is_installation: entry.tenant_id.is_none(),
    }
}

fn visible(mut function: Map<String, Value>, sight: Sight) -> Map<String, Value> {
    if let Some(config) = function.get_mut("handler_config") {
        *config = hide_variables(config.take(), sight);
    }
    function
}
