//! Channels and rules of a manifest: check and write them, in its transaction. A process that dies
//! has written nothing.
//!
//! They are written after the jobs, which rules may name, and channels before rules. Each kind is
//! written by name, so that two manifests lock rows in the same order.

use sched_model::domain::ids::TenantId;
use sched_model::events::notifications::channels::ChannelSettings;
use sched_model::events::notifications::rules;
use sched_model::{Conn, DbResult};
use sched_wire::{Applied, Change, Kind};

use super::{channels as of_channels, rules as of_rules};
use crate::convert::IntoWire as _;
use crate::convert::manifest::CheckedManifest;
use crate::error::ApiError;
use crate::error::field_error::FieldError;
use crate::identity::Actor;
use crate::routes::jobs::apply::{by_name, in_order};
use crate::routes::notes::Notes;

pub(in crate::routes) async fn missing(
    conn: &mut Conn,
    tenant: TenantId,
    checked: &CheckedManifest,
) -> DbResult<Vec<FieldError>> {
    let mut mistakes = Vec::new();
    let may_be_missing = |channel: &&(String, ChannelSettings)| {
        channel.1.secret.as_ref().is_some_and(|name| checked.secrets.contains(name))
    };
    for (at, channel) in checked.channels.iter().filter(|channel| !may_be_missing(channel)) {
        mistakes.extend(of_channels::missing_secret(conn, tenant, at, channel).await?);
    }
    for (at, rule) in &checked.rules {
        let missing = rules::missing(conn, tenant, rule).await?;
        let is_own = |field: &str| match field {
            "channel" => checked.channel_names.contains(&rule.channel),
            "project" => rule.project.as_ref().is_some_and(|name| checked.project_names.contains(name)),
            "job" => rule.job.as_ref().is_some_and(|job| checked.job_names.contains(job)),
            _ => false,
        };
        let others = missing.into_iter().filter(|(field, _)| !is_own(field));
        mistakes.extend(others.map(|(field, message)| FieldError::invalid(format!("{at}/{field}"), message)));
    }
    Ok(mistakes)
}

pub(in crate::routes) async fn write(
    conn: &mut Conn,
    checked: &CheckedManifest,
    by: &Actor,
    notes: &mut Notes,
) -> Result<Vec<Applied>, ApiError> {
    let mut channels = Vec::new();
    for (position, (_, settings)) in by_name(&checked.channels, |settings| &settings.name) {
        let (saved, entry) = of_channels::write(conn, settings, by).await?;
        notes.entries.extend(entry);
        let change = saved.change.into_wire();
        let applied = Applied {
            kind: Kind::NotificationChannel,
            name: saved.channel.name,
            id: Some(saved.channel.id),
            change,
            version: Some(saved.channel.version),
            changes: notes.fields(change),
        };
        channels.push((position, applied));
    }
    if channels.iter().any(|(_, applied)| applied.change == Change::Created) {
        of_channels::room(conn, by.tenant, "/notification_channels").await?;
    }
    let mut rules = Vec::new();
    for (position, (at, settings)) in by_name(&checked.rules, |settings| &settings.name) {
        let (saved, entry) = of_rules::write(conn, at, settings, by).await?;
        notes.entries.extend(entry);
        let change = saved.change.into_wire();
        let applied = Applied {
            kind: Kind::NotificationRule,
            name: saved.rule.settings.name,
            id: Some(saved.rule.id),
            change,
            version: Some(saved.rule.version),
            changes: notes.fields(change),
        };
        rules.push((position, applied));
    }
    if rules.iter().any(|(_, applied)| applied.change == Change::Created) {
        of_rules::room(conn, by.tenant, "/notification_rules").await?;
    }
    Ok(in_order(channels).chain(in_order(rules)).collect())
}
