//! Stored channels. Every change locks the channel's row.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use uuid::Uuid;

use crate::definitions::saved::Change;
use crate::schema::notification_channels;
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::TenantId;
use sched_domain::notification::{ChannelKind, Target};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelSettings {
    pub name: String,
    pub description: String,
    pub kind: ChannelKind,
    pub url: Option<String>,
    /// Name of a secret: the signing key of a webhook, or a chat's URL.
    pub secret: Option<String>,
    pub addresses: Vec<String>,
    pub is_active: bool,
}

impl ChannelSettings {
    #[must_use]
    pub fn target(&self) -> Target<'_> {
        Target {
            kind: self.kind,
            url: self.url.as_deref(),
            secret: self.secret.as_deref(),
            addresses: &self.addresses,
        }
    }
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = notification_channels, check_for_backend(diesel::pg::Pg))]
pub struct ChannelRecord {
    pub id: Uuid,
    pub name: String,
    pub description: String,
    pub kind: ChannelKind,
    pub url: Option<String>,
    pub secret: Option<String>,
    pub addresses: Vec<String>,
    pub is_active: bool,
    pub version: i64,
    pub created_at: DateTime<Utc>,
    pub created_src: String,
    pub updated_at: DateTime<Utc>,
    pub updated_src: String,
}

impl ChannelRecord {
    #[must_use]
    pub fn settings(&self) -> ChannelSettings {
        ChannelSettings {
            name: self.name.clone(),
            description: self.description.clone(),
            kind: self.kind,
            url: self.url.clone(),
            secret: self.secret.clone(),
            addresses: self.addresses.clone(),
            is_active: self.is_active,
        }
    }
}

#[derive(Debug, Clone)]
pub struct SavedChannel {
    pub channel: ChannelRecord,
    /// Before the write; `None` for a new channel.
    pub before: Option<(ChannelSettings, i64)>,
    pub change: Change,
}

/// Channels after the name `after`, by name.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    after: Option<&str>,
    limit: i64,
) -> DbResult<Vec<ChannelRecord>> {
    use notification_channels as c;
    Ok(c::table
        .filter(c::tenant_id.eq(tenant))
        .filter(c::name.gt(after.unwrap_or_default()))
        .order(c::name)
        .limit(limit)
        .select(ChannelRecord::as_select())
        .load(conn)
        .await?)
}

pub async fn by_name(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<ChannelRecord>> {
    use notification_channels as c;
    let found = c::table
        .filter(c::tenant_id.eq(tenant).and(c::name.eq(name)))
        .select(ChannelRecord::as_select())
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

async fn lock(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Option<ChannelRecord>> {
    use notification_channels as c;
    let found = c::table
        .filter(c::tenant_id.eq(tenant).and(c::name.eq(name)))
        .select(ChannelRecord::as_select())
        .for_update()
        .get_result(conn)
        .await;
    Ok(found.optional()?)
}

#[derive(Insertable, AsChangeset)]
#[diesel(table_name = notification_channels, check_for_backend(diesel::pg::Pg), treat_none_as_null = true)]
struct Write<'a> {
    tenant_id: TenantId,
    name: &'a str,
    description: &'a str,
    kind: ChannelKind,
    url: Option<&'a str>,
    secret: Option<&'a str>,
    addresses: &'a [String],
    is_active: bool,
    version: i64,
    updated_src: &'a str,
}

/// Inserts or overwrites a channel. `source` is the component or the user's e-mail address.
///
/// The settings must be validated. Call it in a transaction.
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &ChannelSettings,
    source: &str,
) -> DbResult<SavedChannel> {
    use notification_channels as c;
    // Allows concurrent writes of rules that name the channel; its id stays.
    let existing = c::table
        .filter(c::tenant_id.eq(tenant).and(c::name.eq(&settings.name)))
        .select(ChannelRecord::as_select())
        .for_no_key_update()
        .get_result(conn)
        .await
        .optional()?;
    let before = existing.as_ref().map(|existing| (existing.settings(), existing.version));
    let write = Write {
        tenant_id: tenant,
        name: &settings.name,
        description: &settings.description,
        kind: settings.kind,
        url: settings.url.as_deref(),
        secret: settings.secret.as_deref(),
        addresses: &settings.addresses,
        is_active: settings.is_active,
        version: existing.as_ref().map_or(1, |existing| existing.version + 1),
        updated_src: source,
    };
    let Some(existing) = existing else {
        let created = diesel::insert_into(c::table)
            .values((&write, c::created_src.eq(source)))
            .returning(ChannelRecord::as_returning())
            .get_result(conn)
            .await;
        let channel = created.map_err(|error| match DbError::from(error) {
            // A concurrent transaction created the channel: this transaction runs again and changes
            // it.
            DbError::Constraint { name, source, .. } if name == "notification_channels_name_key" => {
                DbError::Collision(source)
            }
            error => error,
        })?;
        return Ok(SavedChannel { channel, before, change: Change::Created });
    };
    if existing.settings() == *settings {
        return Ok(SavedChannel { channel: existing, before, change: Change::Unchanged });
    }
    let channel = diesel::update(c::table.find((tenant, existing.id)))
        .set((&write, c::updated_at.eq(database_clock::clock_timestamp())))
        .returning(ChannelRecord::as_returning())
        .get_result(conn)
        .await?;
    Ok(SavedChannel { channel, before, change: Change::Updated })
}

#[derive(Debug, Clone)]
pub enum Deleted {
    Done(Box<ChannelRecord>),
    InUse(Vec<String>),
    NoSuchChannel,
}

const MOST_NAMED_RULES: i64 = 10;

/// Deletes a channel that no rule uses; its open deliveries fail. Call it in a transaction.
pub async fn delete(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Deleted> {
    use crate::schema::notification_rules as r;
    use notification_channels as c;
    // A concurrent write of a rule for the channel waits for this lock, or its rule is visible.
    let Some(channel) = lock(conn, tenant, name).await? else { return Ok(Deleted::NoSuchChannel) };
    let rules: Vec<String> = r::table
        .filter(r::tenant_id.eq(tenant).and(r::channel_id.eq(channel.id)))
        .order(r::name)
        .limit(MOST_NAMED_RULES)
        .select(r::name)
        .load(conn)
        .await?;
    if !rules.is_empty() {
        return Ok(Deleted::InUse(rules));
    }
    diesel::delete(c::table.find((tenant, channel.id))).execute(conn).await?;
    Ok(Deleted::Done(Box::new(channel)))
}
