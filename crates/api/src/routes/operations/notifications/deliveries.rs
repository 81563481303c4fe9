//! Deliveries of notifications and their results. Read only: the leader decides about them.

use actix_web::web;
use sched_model::Conn;
use sched_model::events::notifications::deliveries::{self, DeliveryFilter};
use sched_wire::{NotificationDeliveriesQuery, NotificationDelivery, Page};

use crate::convert::IntoDomain as _;
use crate::convert::notification as show;
use crate::error::ApiError;
use crate::http::extract::{Query, id};
use crate::http::pagination::Pages;
use crate::identity::Identity;
use crate::routes::named_resource::no_such;
use crate::routes::{Answer, State};

/// `GET /notification-deliveries`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<NotificationDeliveriesQuery>,
) -> Answer<Page<NotificationDelivery>> {
    let tenant = identity.tenant();
    let which = ("notification-deliveries", query.status, &query.channel, &query.rule);
    let pages = Pages::of(&which, query.limit, query.cursor.as_deref())?;
    let before = pages.after_as()?;
    let filter = DeliveryFilter {
        status: query.status.map(sched_wire::DeliveryStatus::into_domain),
        channel: query.channel,
        rule: query.rule,
        before,
    };
    let rows = state
        .read(&identity, "list_notification_deliveries", async |conn: &mut Conn| {
            Ok(deliveries::list(conn, tenant, &filter, pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |delivery| delivery.id.to_string(), show::delivery)))
}

/// `GET /notification-deliveries/{id}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    text: web::Path<String>,
) -> Answer<NotificationDelivery> {
    let (tenant, id) = (identity.tenant(), id(&text)?);
    let found = state
        .read(&identity, "show_notification_delivery", async |conn: &mut Conn| {
            let found = deliveries::by_id(conn, tenant, id).await?;
            found.ok_or_else(|| -> ApiError { no_such("notification delivery", &id.to_string()) })
        })
        .await?;
    Ok(web::Json(show::delivery(found)))
}
