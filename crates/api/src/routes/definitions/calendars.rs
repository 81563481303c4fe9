//! Calendars: list, show, write and delete them.
//!
//! A write replaces the whole calendar. A calendar that jobs name is not deleted. `PUT` and
//! [`crate::routes::jobs::apply`] both write through [`write()`].

use actix_web::{HttpResponse, web};
use sched_model::definitions::calendars::{self, CalendarSettings, DeleteError, SavedCalendar};
use sched_model::definitions::functions::Change;
use sched_model::domain::job::check_name;
use sched_model::identity::audit::AuditEntry;
use sched_model::jobs::{self, SaveError};
use sched_model::{Conn, identity::audit};
use sched_wire::{BASE_PATH, Calendar, Page, PageQuery};
use serde_json::Value;

use crate::convert::calendar::{read_calendar, show};
use crate::convert::spec::LONGEST_NAME;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::version_tag;
use crate::routes::named_resource::{can_be_there, named, no_such};
use crate::routes::{Answer, State, compute, operations::auditing};

const KIND: &str = "calendar";

/// `GET /calendars`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Calendar>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"calendars", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read(&identity, "list_calendars", async |conn: &mut Conn| {
            Ok(calendars::list(conn, tenant, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |calendar| calendar.name.clone(), show)))
}

/// `GET /calendars/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "show_calendar", async |conn: &mut Conn| {
            Ok(calendars::by_name(conn, tenant, &name).await?)
        })
        .await?;
    let found = found.ok_or_else(|| no_such(KIND, &name))?;
    let tag = version_tag(found.version);
    Ok(Reply::ok(&show(found))?.etag(tag).into_response())
}

/// `PUT /calendars/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let (name, body, condition) = (name.into_inner(), body.required()?, call.condition()?);
    // Reading a definition expands its rules, which may take a while.
    let settings = compute(move || settings(&name, body)).await??;
    let written = call
        .write("put_calendar", async |conn: &mut Conn| {
            let mut entries = Vec::new();
            let saved = write(conn, &settings, &call.by, &mut entries)
                .await
                .map_err(|error| field_error::save_refused(error, ""))?;
            let (change, calendar) = (saved.change, saved.calendar);
            let version = calendar.version;
            let before = match change {
                Change::Created => None,
                Change::Updated => Some((version - 1).to_string()),
                Change::Unchanged => Some(version.to_string()),
            };
            condition.check(KIND, before.as_deref())?;
            audit::write(conn, &entries).await?;
            let reply = match change {
                Change::Created => {
                    let location = format!("{BASE_PATH}/calendars/{}", calendar.name);
                    Reply::created(&show(calendar))?.location(location)
                }
                Change::Updated | Change::Unchanged => Reply::ok(&show(calendar))?,
            };
            Ok::<_, ApiError>((reply.etag(version_tag(version)), (change, version)))
        })
        .await?;
    if let Some((change, version)) = written.extra
        && change != Change::Unchanged
    {
        tracing::info!(calendar.name = settings.name, calendar.version = version, "calendar written");
    }
    Ok(written.response)
}

/// `DELETE /calendars/{name}`
pub(crate) async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, condition) = (call.tenant(), call.condition()?);
    can_be_there(KIND, &name)?;
    let written = call
        .write("delete_calendar", async |conn: &mut Conn| {
            let deleted = calendars::delete(conn, tenant, &name).await.map_err(refused)?;
            let calendar = deleted.ok_or_else(|| no_such(KIND, &name))?;
            condition.check(KIND, Some(&calendar.version.to_string()))?;
            audit::write(conn, &[auditing::of_deleted_calendar(&calendar, &call.by)]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    tracing::info!(calendar.name = name.as_str(), "calendar deleted");
    Ok(written.response)
}

/// Runs in the caller's transaction and returns the audit entry. Jobs that name the calendar follow
/// it at once.
pub(crate) async fn write(
    conn: &mut Conn,
    settings: &CalendarSettings,
    by: &Actor,
    entries: &mut Vec<AuditEntry>,
) -> Result<SavedCalendar, SaveError> {
    let saved = calendars::save(conn, by.tenant, settings, &by.source).await?;
    if saved.change != Change::Unchanged {
        entries.push(auditing::of_calendar(&saved, by));
    }
    if let Some(before) = saved.before.as_ref().filter(|_| saved.changes_fires()) {
        jobs::reschedule_users_of(conn, by.tenant, &settings.name, &before.definition).await?;
    }
    Ok(saved)
}

/// The body may omit the name, which is in the path.
fn settings(name: &str, body: Value) -> Result<CalendarSettings, ApiError> {
    if let Err(message) = check_name(name, LONGEST_NAME) {
        return Err(ApiError::parameter("name", message));
    }
    read_calendar(named(name, body)?, "").map_err(ApiError::Refused)
}

fn refused(error: DeleteError) -> ApiError {
    match error {
        DeleteError::InUse { .. } => ApiError::Refused(vec![FieldError {
            reason: Reason::InUse,
            pointer: String::new(),
            message: format!("{error}; take it from them first"),
        }]),
        DeleteError::Database(error) => error.into(),
    }
}
