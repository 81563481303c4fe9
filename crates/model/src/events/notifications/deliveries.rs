//! Deliveries: notifications to send, and their outcomes.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde_json::Value;
use uuid::Uuid;

use super::channels::ChannelRecord;
use crate::schema::{notification_channels, notification_deliveries};
use crate::{Conn, DbResult};
use sched_domain::ids::TenantId;
use sched_domain::notification::{DeliveryStatus, MessageKind};

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = notification_deliveries, check_for_backend(diesel::pg::Pg))]
pub struct DeliveryRecord {
    pub id: Uuid,
    pub channel_id: Uuid,
    pub channel_name: String,
    pub rule_name: Option<String>,
    pub kind: MessageKind,
    pub job_id: Option<Uuid>,
    pub subject_dispatch_id: Option<Uuid>,
    pub body: Value,
    pub held_back: i32,
    pub status: DeliveryStatus,
    pub attempts: i32,
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub created_at: DateTime<Utc>,
    pub updated_at: DateTime<Utc>,
    pub reached: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub struct DeliveryFilter {
    pub status: Option<DeliveryStatus>,
    pub channel: Option<String>,
    pub rule: Option<String>,
    pub before: Option<Uuid>,
}

pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    filter: &DeliveryFilter,
    limit: i64,
) -> DbResult<Vec<DeliveryRecord>> {
    use notification_deliveries as d;
    let mut query = d::table.filter(d::tenant_id.eq(tenant)).into_boxed();
    if let Some(status) = filter.status {
        query = query.filter(d::status.eq(status));
    }
    if let Some(channel) = &filter.channel {
        query = query.filter(d::channel_name.eq(channel));
    }
    if let Some(rule) = &filter.rule {
        query = query.filter(d::rule_name.eq(rule));
    }
    if let Some(before) = filter.before {
        query = query.filter(d::id.lt(before));
    }
    Ok(query.order(d::id.desc()).limit(limit).select(DeliveryRecord::as_select()).load(conn).await?)
}

pub async fn by_id(conn: &mut Conn, tenant: TenantId, id: Uuid) -> DbResult<Option<DeliveryRecord>> {
    use notification_deliveries as d;
    let found =
        d::table.find((tenant, id)).select(DeliveryRecord::as_select()).get_result(conn).await.optional()?;
    Ok(found)
}

/// A test message for a channel.
#[derive(Debug, Clone, Copy)]
pub struct TestMessage<'a> {
    /// The id of its delivery.
    pub id: Uuid,
    pub channel: &'a ChannelRecord,
    pub body: &'a Value,
}

/// Creates a test delivery for a channel, active or not.
pub async fn test(conn: &mut Conn, tenant: TenantId, message: TestMessage<'_>) -> DbResult<()> {
    use notification_deliveries as d;
    let TestMessage { id, channel, body } = message;
    diesel::insert_into(d::table)
        .values((
            d::tenant_id.eq(tenant),
            d::id.eq(id),
            d::channel_id.eq(channel.id),
            d::channel_name.eq(&channel.name),
            d::kind.eq(MessageKind::Test),
            d::body.eq(body),
        ))
        .execute(conn)
        .await?;
    Ok(())
}

/// Stores why a sending failed; only the tenant may read the text.
pub async fn note_failure(
    conn: &mut Conn,
    tenant: TenantId,
    id: Uuid,
    (class, message): (&str, &str),
) -> DbResult<()> {
    use notification_deliveries as d;
    diesel::update(d::table.find((tenant, id)))
        .set((d::error_class.eq(class), d::error_message.eq(message)))
        .execute(conn)
        .await?;
    Ok(())
}

/// The address's server accepted a delivery.
pub async fn note_reached(conn: &mut Conn, tenant: TenantId, id: Uuid, address: &str) -> DbResult<()> {
    use notification_deliveries as d;
    let is_noted = d::reached.contains(vec![address.to_owned()]);
    diesel::update(d::table.find((tenant, id)).filter(diesel::dsl::not(is_noted)))
        .set(d::reached.eq(d::reached.concat(vec![address.to_owned()])))
        .execute(conn)
        .await?;
    Ok(())
}

/// A delivery to send; its channel is missing if it was deleted.
pub async fn to_send(
    conn: &mut Conn,
    tenant: TenantId,
    id: Uuid,
) -> DbResult<Option<(DeliveryRecord, Option<ChannelRecord>)>> {
    use notification_channels as c;
    let Some(delivery) = by_id(conn, tenant, id).await? else { return Ok(None) };
    let channel = c::table
        .find((tenant, delivery.channel_id))
        .select(ChannelRecord::as_select())
        .get_result(conn)
        .await
        .optional()?;
    Ok(Some((delivery, channel)))
}
