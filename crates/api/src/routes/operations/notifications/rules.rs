//! Rules: list, show, write and delete them.

use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::domain::ids::TenantId;
use sched_model::events::notifications::rules::{self, NewRule, RuleRecord, RuleSettings, SavedRule};
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, connection::notify, identity::audit};
use sched_wire::{BASE_PATH, NotificationRule, Page, PageQuery};

use super::{LOOKED_AT, at_most, entry};
use crate::convert::notification as show;
use crate::error::ApiError;
use crate::error::field_error::FieldError;
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::version_tag;
use crate::routes::named_resource::{can_be_there, named, no_such};
use crate::routes::{Answer, State};

const KIND: &str = "notification rule";
/// Name in the audit log.
const TARGET: &str = "notification_rule";

/// `GET /notification-rules`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<NotificationRule>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"notification-rules", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read(&identity, "list_notification_rules", async |conn: &mut Conn| {
            Ok(rules::list(conn, tenant, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |rule| rule.settings.name.clone(), show::rule)))
}

/// `GET /notification-rules/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "show_notification_rule", async |conn: &mut Conn| found(conn, tenant, &name).await)
        .await?;
    let tag = version_tag(found.version);
    Ok(Reply::ok(&show::rule(found))?.etag(tag).into_response())
}

/// `PUT /notification-rules/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let (tenant, condition, by) = (call.tenant(), call.condition()?, &call.by);
    let body = named(&name, body.required()?)?;
    let settings = show::read_rule(body, "").map_err(ApiError::Refused)?;
    let written = call
        .write("put_notification_rule", async |conn: &mut Conn| {
            let (saved, entry) = write(conn, "", &settings, by).await?;
            if saved.change == Change::Created {
                room(conn, tenant, "").await?;
            }
            let before = saved.before.as_ref().map(|(_, version)| version.to_string());
            condition.check(KIND, before.as_deref())?;
            audit::write(conn, entry.as_slice()).await?;
            let (change, tag) = (saved.change, version_tag(saved.rule.version));
            let shown = show::rule(saved.rule);
            let reply = match change {
                Change::Created => Reply::created(&shown)?
                    .location(format!("{BASE_PATH}/notification-rules/{}", settings.name)),
                Change::Updated | Change::Unchanged => Reply::ok(&shown)?,
            };
            Ok::<_, ApiError>((reply.etag(tag), change))
        })
        .await?;
    if written.extra.is_some_and(|change| change != Change::Unchanged) {
        call.state.hint("the leader", async |conn: &mut Conn| notify::notifications_wanted(conn).await).await;
        tracing::info!(rule.name = settings.name, "notification rule written");
    }
    Ok(written.response)
}

pub(in crate::routes) async fn write(
    conn: &mut Conn,
    at: &str,
    settings: &RuleSettings,
    by: &Actor,
) -> Result<(SavedRule, Option<AuditEntry>), ApiError> {
    let subject = rules::subject(conn, by.tenant, settings).await?.map_err(|missing| {
        let mistake = |(field, message)| FieldError::invalid(format!("{at}/{field}"), message);
        ApiError::Refused(missing.into_iter().map(mistake).collect())
    })?;
    let saved = rules::save(conn, by.tenant, NewRule { settings, subject, source: &by.source }).await?;
    let action = match saved.change {
        Change::Created => "create_notification_rule",
        Change::Updated => "update_notification_rule",
        Change::Unchanged => return Ok((saved, None)),
    };
    let before = saved.before.as_ref().map(|(before, _)| before);
    let entry = entry((action, TARGET, settings.name.as_str()), before, Some(settings), by);
    Ok((saved, Some(entry)))
}

/// Rejects the rule at `at` if the tenant has one too many now.
pub(in crate::routes) async fn room(conn: &mut Conn, tenant: TenantId, at: &str) -> Result<(), ApiError> {
    at_most(rules::list(conn, tenant, None, LOOKED_AT).await?.len(), at, KIND)
}

/// `DELETE /notification-rules/{name}`
pub(crate) async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, condition, by) = (call.tenant(), call.condition()?, &call.by);
    can_be_there(KIND, &name)?;
    let written = call
        .write("delete_notification_rule", async |conn: &mut Conn| {
            let rule = rules::delete(conn, tenant, &name).await?.ok_or_else(|| no_such(KIND, &name))?;
            condition.check(KIND, Some(&rule.version.to_string()))?;
            let what = ("delete_notification_rule", TARGET, name.as_str());
            audit::write(conn, &[entry(what, Some(&rule.settings), None, by)]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    if written.extra.is_some() {
        tracing::info!(rule.name = name.as_str(), "notification rule deleted");
    }
    Ok(written.response)
}

async fn found(conn: &mut Conn, tenant: TenantId, name: &str) -> Result<RuleRecord, ApiError> {
    rules::by_name(conn, tenant, name).await?.ok_or_else(|| no_such(KIND, name))
}
