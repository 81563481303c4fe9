//! Channels: list, show, write, delete and test them.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::domain::ids::{TenantId, time_ordered};
use sched_model::events::notifications::channels::{
    self, ChannelRecord, ChannelSettings, Deleted, SavedChannel,
};
use sched_model::events::notifications::deliveries::{self, TestMessage};
use sched_model::identity::audit::AuditEntry;
use sched_model::{
    Conn, DbResult,
    connection::{database_clock, notify},
    definitions::secrets,
    identity::{audit, tenants},
};
use sched_wire::{BASE_PATH, NotificationChannel, Page, PageQuery, instant_text};
use serde_json::json;

use super::{LOOKED_AT, at_most, entry};
use crate::convert::notification as show;
use crate::error::ApiError;
use crate::error::field_error::{FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::version_tag;
use crate::routes::named_resource::{can_be_there, named, no_such};
use crate::routes::{Answer, State};

const KIND: &str = "notification channel";
/// Name in the audit log.
const TARGET: &str = "notification_channel";

/// `GET /notification-channels`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<NotificationChannel>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"notification-channels", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read(&identity, "list_notification_channels", async |conn: &mut Conn| {
            Ok(channels::list(conn, tenant, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |channel| channel.name.clone(), show::channel)))
}

/// `GET /notification-channels/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "show_notification_channel", async |conn: &mut Conn| {
            found(conn, tenant, &name).await
        })
        .await?;
    let tag = version_tag(found.version);
    Ok(Reply::ok(&show::channel(found))?.etag(tag).into_response())
}

/// `PUT /notification-channels/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let (tenant, condition, by) = (call.tenant(), call.condition()?, &call.by);
    let body = named(&name, body.required()?)?;
    let settings = show::read_channel(body, "").map_err(ApiError::Refused)?;
    let written = call
        .write("put_notification_channel", async |conn: &mut Conn| {
            if let Some(mistake) = missing_secret(conn, tenant, "", &settings).await? {
                return Err(ApiError::Refused(vec![mistake]));
            }
            let (saved, entry) = write(conn, &settings, by).await?;
            if saved.change == Change::Created {
                room(conn, tenant, "").await?;
            }
            let before = saved.before.as_ref().map(|(_, version)| version.to_string());
            condition.check(KIND, before.as_deref())?;
            audit::write(conn, entry.as_slice()).await?;
            let (change, tag) = (saved.change, version_tag(saved.channel.version));
            let shown = show::channel(saved.channel);
            let reply = match change {
                Change::Created => Reply::created(&shown)?
                    .location(format!("{BASE_PATH}/notification-channels/{}", settings.name)),
                Change::Updated | Change::Unchanged => Reply::ok(&shown)?,
            };
            Ok::<_, ApiError>((reply.etag(tag), change))
        })
        .await?;
    if written.extra.is_some_and(|change| change != Change::Unchanged) {
        tracing::info!(channel.name = settings.name, "notification channel written");
    }
    Ok(written.response)
}

pub(in crate::routes) async fn write(
    conn: &mut Conn,
    settings: &ChannelSettings,
    by: &Actor,
) -> DbResult<(SavedChannel, Option<AuditEntry>)> {
    let saved = channels::save(conn, by.tenant, settings, &by.source).await?;
    let action = match saved.change {
        Change::Created => "create_notification_channel",
        Change::Updated => "update_notification_channel",
        Change::Unchanged => return Ok((saved, None)),
    };
    let before = saved.before.as_ref().map(|(before, _)| before);
    let entry = entry((action, TARGET, settings.name.as_str()), before, Some(settings), by);
    Ok((saved, Some(entry)))
}

/// Rejects the channel at `at` if the tenant has one too many now.
pub(in crate::routes) async fn room(conn: &mut Conn, tenant: TenantId, at: &str) -> Result<(), ApiError> {
    at_most(channels::list(conn, tenant, None, LOOKED_AT).await?.len(), at, KIND)
}

/// The messages of a channel with a missing secret would fail, without a notification about that.
pub(in crate::routes) async fn missing_secret(
    conn: &mut Conn,
    tenant: TenantId,
    at: &str,
    settings: &ChannelSettings,
) -> DbResult<Option<FieldError>> {
    let Some(name) = &settings.secret else { return Ok(None) };
    if secrets::of_tenant(conn, tenant, name).await?.is_some() {
        return Ok(None);
    }
    let message =
        format!("there is no secret {name:?} of the whole tenant; set it with `schedctl secrets set {name}`");
    Ok(Some(FieldError::invalid(format!("{at}/secret"), message)))
}

/// `DELETE /notification-channels/{name}`
pub(crate) async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, condition, by) = (call.tenant(), call.condition()?, &call.by);
    can_be_there(KIND, &name)?;
    let written = call
        .write("delete_notification_channel", async |conn: &mut Conn| {
            let channel = match channels::delete(conn, tenant, &name).await? {
                Deleted::Done(channel) => channel,
                Deleted::InUse(rules) => return Err(in_use(&name, &rules)),
                Deleted::NoSuchChannel => return Err(no_such(KIND, &name)),
            };
            condition.check(KIND, Some(&channel.version.to_string()))?;
            let before = channel.settings();
            let what = ("delete_notification_channel", TARGET, name.as_str());
            audit::write(conn, &[entry(what, Some(&before), None, by)]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    if written.extra.is_some() {
        tracing::info!(channel.name = name.as_str(), "notification channel deleted");
    }
    Ok(written.response)
}

fn in_use(name: &str, rules: &[String]) -> ApiError {
    let message =
        format!("the {KIND} {name:?} is used by rules ({}); delete or change them first", rules.join(", "));
    ApiError::Refused(vec![FieldError { reason: Reason::InUse, pointer: String::new(), message }])
}

/// `POST /notification-channels/{name}/test`
pub(crate) async fn test(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, by) = (call.tenant(), &call.by);
    can_be_there(KIND, &name)?;
    let written = call
        .write("test_notification_channel", async |conn: &mut Conn| {
            let channel = found(conn, tenant, &name).await?;
            let now = database_clock::now(conn).await?;
            let id = time_ordered(now);
            let slug = tenants::by_id(conn, tenant).await?.slug;
            let body = json!({
                "type": "test", "id": id, "at": instant_text(now), "tenant": slug, "channel": channel.name, "held_back": 0,
            });
            deliveries::test(conn, tenant, TestMessage { id, channel: &channel, body: &body }).await?;
            let what = ("test_notification_channel", TARGET, name.as_str());
            audit::write(conn, &[entry::<ChannelSettings>(what, None, None, by)]).await?;
            let made = deliveries::by_id(conn, tenant, id).await?;
            let made = made.ok_or_else(|| no_such("notification delivery", &id.to_string()))?;
            Ok::<_, ApiError>((Reply::with(StatusCode::ACCEPTED, &show::delivery(made))?, ()))
        })
        .await?;
    call.state.hint("the leader", async |conn: &mut Conn| notify::notifications_wanted(conn).await).await;
    Ok(written.response)
}

async fn found(conn: &mut Conn, tenant: TenantId, name: &str) -> Result<ChannelRecord, ApiError> {
    channels::by_name(conn, tenant, name).await?.ok_or_else(|| no_such(KIND, name))
}
