//! Task functions: list, show, write, delete, activate and deactivate them.
//!
//! A write replaces the whole function, by the rules of [`crate::routes::jobs::apply`], but not
//! whether it is active or paused. Built-in functions are never changed, and only operators switch
//! them.

use actix_web::http::header::ETAG;
use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::{self, Activation, Change, Function as Kept, FunctionSettings};
use sched_model::domain::ids::TenantId;
use sched_model::events::append::NewEvent;
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, DbError, PageRequest, events::append, identity::audit};
use sched_wire::{BASE_PATH, Function, FunctionsQuery, Page};
use serde_json::json;

use crate::convert::effective::InstallationDefaults;
use crate::convert::hidden::Sight;
use crate::convert::manifest::CheckedManifest;
use crate::convert::{IntoDomain, hidden, response, spec};
use crate::error::ApiError;
use crate::error::field_error::{FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, NoParameters, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::tag;
use crate::routes::jobs::apply::missing_secrets;
use crate::routes::named_resource::{can_be_there, event, may_touch_built_in, named, no_such, refused};
use crate::routes::{Answer, State, operations::auditing};

const KIND: &str = "task function";

fn sight(identity: &Identity) -> Sight {
    Sight::of(identity.caller().permissions)
}

/// `GET /functions`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<FunctionsQuery>,
) -> Answer<Page<Function>> {
    let tenant = identity.tenant();
    let which = FunctionsQuery { limit: None, cursor: None, ..query.clone() };
    let pages = Pages::of(&("functions", which), query.limit, query.cursor.as_deref())?;
    let filter = functions::Filter {
        name_prefix: query.name_prefix,
        queue: query.queue,
        handler_type: query.handler_type.map(IntoDomain::into_domain),
        is_active: query.is_active,
    };
    let rows = state
        .read(&identity, "list_functions", async |conn: &mut Conn| {
            let page = PageRequest { after: pages.after(), limit: pages.rows() };
            Ok(functions::list(conn, tenant, &filter, page).await?)
        })
        .await?;
    let sight = sight(&identity);
    let show = |function| response::function(function, sight, state.defaults());
    Ok(web::Json(pages.page(rows, |function| function.settings.name.clone(), show)))
}

/// `GET /functions/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "get_function", async |conn: &mut Conn| found(conn, tenant, &name).await)
        .await?;
    let etag = (ETAG, tag(found.updated_at));
    let shown = response::function(found, sight(&identity), state.defaults());
    Ok(HttpResponse::Ok().insert_header(etag).json(shown))
}

/// `PUT /functions/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let expected = call.expected()?;
    let (settings, mistakes) =
        spec::function_with_hidden(named(&name, body.required()?)?, "").map_err(ApiError::Refused)?;
    if !mistakes.is_empty() {
        return Err(ApiError::Refused(mistakes));
    }
    let written = call
        .write("put_function", async |conn: &mut Conn| write(conn, settings.clone(), expected, &call).await)
        .await?;
    if written.extra.is_some_and(|change| change != Change::Unchanged) {
        tracing::info!(function.name = name.as_str(), "function written");
    }
    Ok(written.response)
}

/// Hidden values that the client sends back unchanged keep their stored value.
async fn write(
    conn: &mut Conn,
    mut settings: FunctionSettings,
    expected: sched_model::definitions::resources::Expected,
    call: &Call,
) -> Result<(Reply, Change), ApiError> {
    let (by, sight) = (&call.by, sight(&call.identity));
    let (tenant, name) = (by.tenant, settings.name.clone());
    let name = name.as_str();
    let before =
        functions::expect(conn, tenant, name, expected).await.map_err(|error| refused(error, KIND, name))?;
    let kept = before.as_ref().map(|function| &function.settings.handler_config);
    let unknown = hidden::put_back_hidden(&mut settings.handler_config, kept);
    if !unknown.is_empty() {
        return Err(ApiError::Refused(unknown.iter().map(|pointer| spec::sent_back("", pointer)).collect()));
    }
    let checked =
        CheckedManifest { functions: vec![(String::new(), settings)], ..CheckedManifest::default() };
    let missing = missing_secrets(conn, tenant, &checked).await?;
    if !missing.is_empty() {
        return Err(ApiError::Refused(missing));
    }
    let Some((_, settings)) = checked.functions.first() else { return Err(ApiError::Broken) };
    if before.as_ref().is_some_and(|function| function.is_system && function.settings != *settings) {
        let message = format!("the {KIND} {name:?} is built in and cannot be changed");
        return Err(ApiError::Refused(vec![FieldError {
            reason: Reason::BuiltIn,
            pointer: String::new(),
            message,
        }]));
    }
    let saved = functions::save(conn, tenant, settings).await;
    let (id, change) = saved.map_err(|error| no_queue(error, &settings.queue))?;
    if change != Change::Unchanged {
        let before = before.as_ref().map(|function| &function.settings);
        audit::write(conn, &[auditing::of_function(id, before, settings, by)]).await?;
        append::append(conn, &[written(change, name, by)]).await?;
    }
    let after = found(conn, tenant, name).await?;
    let etag = tag(after.updated_at);
    let shown = response::function(after, sight, call.state.defaults());
    let reply = match change {
        Change::Created => Reply::created(&shown)?.location(format!("{BASE_PATH}/functions/{name}")),
        Change::Updated | Change::Unchanged => Reply::ok(&shown)?,
    };
    Ok((reply.etag(etag), change))
}

pub(crate) fn written(change: Change, name: &str, by: &Actor) -> NewEvent {
    let event_type = match change {
        Change::Created => append::FUNCTION_CREATED,
        Change::Updated | Change::Unchanged => append::FUNCTION_UPDATED,
    };
    function_event(event_type, name, by)
}

fn function_event(event_type: &'static str, name: &str, by: &Actor) -> NewEvent {
    event(by.tenant, None, event_type, json!({"name": name, "by": by.source}))
}

fn no_queue(error: DbError, queue: &str) -> ApiError {
    if error.constraint() == Some("task_functions_queue_fkey") {
        let message = format!("there is no queue named {queue:?}");
        return ApiError::Refused(vec![FieldError::invalid("/queue", message)]);
    }
    error.into()
}

/// `DELETE /functions/{name}`
pub(crate) async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, expected, by) = (call.tenant(), call.expected()?, &call.by);
    can_be_there(KIND, &name)?;
    let written = call
        .write("delete_function", async |conn: &mut Conn| {
            let function = functions::delete(conn, tenant, &name, expected)
                .await
                .map_err(|error| refused(error, KIND, &name))?;
            audit::write(conn, &[auditing::of_deleted_function(&function, by)]).await?;
            append_event(conn, append::FUNCTION_DELETED, &name, by).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    if written.extra.is_some() {
        tracing::info!(function.name = name.as_str(), "function deleted");
    }
    Ok(written.response)
}

/// `POST /functions/{name}/activate`
pub(crate) async fn activate(
    call: Call,
    name: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    set_active(&call, &name, true).await
}

/// `POST /functions/{name}/deactivate`
pub(crate) async fn deactivate(
    call: Call,
    name: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    set_active(&call, &name, false).await
}

async fn set_active(call: &Call, name: &str, is_active: bool) -> Result<HttpResponse, ApiError> {
    let by = &call.by;
    can_be_there(KIND, name)?;
    let (tenant, expected) = (call.tenant(), call.expected()?);
    let (action, event_type) = match is_active {
        true => ("activate_task_function", append::FUNCTION_ACTIVATED),
        false => ("deactivate_task_function", append::FUNCTION_DEACTIVATED),
    };
    let written = call
        .write(action, async |conn: &mut Conn| {
            let before = functions::set_active(conn, tenant, Activation { name, is_active, expected })
                .await
                .map_err(|error| refused(error, KIND, name))?;
            may_touch_built_in(&call.identity, before.is_system)?;
            if before.is_active != is_active {
                let entry = AuditEntry {
                    tenant_id: Some(tenant),
                    actor: by.actor.clone(),
                    action,
                    target_type: "task_function",
                    target_id: before.id.to_string(),
                    before: Some(json!({"name": name, "is_active": before.is_active})),
                    after: Some(json!({"name": name, "is_active": is_active})),
                    request_id: Some(by.request.clone()),
                    address: by.address.clone(),
                };
                audit::write(conn, &[entry]).await?;
                append_event(conn, event_type, name, by).await?;
                tracing::info!(function.name = name, action, "function switched");
            }
            shown(conn, &call.identity, name, call.state.defaults()).await
        })
        .await?;
    Ok(written.response)
}

pub(in crate::routes) async fn shown(
    conn: &mut Conn,
    identity: &Identity,
    name: &str,
    installation: InstallationDefaults,
) -> Result<(Reply, ()), ApiError> {
    let function = found(conn, identity.tenant(), name).await?;
    let etag = tag(function.updated_at);
    Ok((Reply::ok(&response::function(function, sight(identity), installation))?.etag(etag), ()))
}

pub(in crate::routes) async fn found(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> Result<Kept, ApiError> {
    functions::by_name(conn, tenant, name).await?.ok_or_else(|| no_such(KIND, name))
}

async fn append_event(
    conn: &mut Conn,
    event_type: &'static str,
    name: &str,
    by: &Actor,
) -> Result<(), ApiError> {
    Ok(append::append(conn, &[function_event(event_type, name, by)]).await?)
}
