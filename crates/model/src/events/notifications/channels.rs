//! Channels, as they are kept. Whoever changes one holds its row.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use serde::Serialize;
use uuid::Uuid;

use crate::definitions::functions::Change;
use crate::schema::notification_channels;
use crate::{Conn, DbError, DbResult, connection::database_clock};
use sched_domain::ids::TenantId;
use sched_domain::notification::{ChannelKind, Target};

/// What a user says about a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChannelSettings {
    /// Stable name, unique in the tenant.
    pub name: String,
    /// Free text.
    pub description: String,
    /// How it is reached.
    pub kind: ChannelKind,
    /// Where a webhook is sent.
    pub url: Option<String>,
    /// Name of a secret: the key of signatures, or the URL of a chat.
    pub secret: Option<String>,
    /// To whom e-mail goes.
    pub addresses: Vec<String>,
    /// Whether rules use it.
    pub is_active: bool,
}

impl ChannelSettings {
    /// Where it leads.
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

/// A channel as it is kept.
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
    /// What a user says about it.
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

/// A channel that was written.
#[derive(Debug, Clone)]
pub struct SavedChannel {
    /// The channel after the write.
    pub channel: ChannelRecord,
    /// What was said about it before, and its version then; `None` when it is new.
    pub before: Option<(ChannelSettings, i64)>,
    /// What the write did.
    pub change: Change,
}

/// Channels of the tenant whose name sorts after `after`, at most `limit`, by name.
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

/// The channel of that name, if the tenant has one.
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

/// Writes a channel under its name: a new one, or over the old. `source` says which component or whose e-mail writes.
///
/// The settings have been checked. Call it in a transaction.
pub async fn save(
    conn: &mut Conn,
    tenant: TenantId,
    settings: &ChannelSettings,
    source: &str,
) -> DbResult<SavedChannel> {
    use notification_channels as c;
    // Rules that name it may be written meanwhile; its id stays.
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
            // Somebody created it since we looked: the transaction, run again, finds it and changes it.
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

/// What came of the wish to delete a channel.
#[derive(Debug, Clone)]
pub enum Deleted {
    /// It is gone; this is what it was.
    Done(Box<ChannelRecord>),
    /// These rules use it, the first of them by name; nothing was done.
    InUse(Vec<String>),
    /// There is none of that name.
    NoSuchChannel,
}

/// How many rules a refusal to delete names.
const MOST_NAMED_RULES: i64 = 10;

/// Deletes a channel that no rule uses. What is on its way there fails. Call it in a transaction.
pub async fn delete(conn: &mut Conn, tenant: TenantId, name: &str) -> DbResult<Deleted> {
    use crate::schema::notification_rules as r;
    use notification_channels as c;
    // A rule that is being made for it waits for this lock, or is seen.
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
