//! Converts notification channels, rules and deliveries. Pure.

use sched_model::domain::notification::{LONGEST_INTERVAL, Occasion};
use sched_model::events::notifications::channels::{ChannelRecord, ChannelSettings};
use sched_model::events::notifications::deliveries::DeliveryRecord;
use sched_model::events::notifications::rules::{RuleRecord, RuleSettings};
use sched_wire as wire;
use serde_json::Value;

use super::spec::{LONGEST_DESCRIPTION, name_mistake};
use super::{IntoDomain as _, IntoWire as _};
use crate::convert::response;
use crate::error::field_error::{FieldError, read};

pub(crate) fn read_channel(value: Value, at: &str) -> Result<ChannelSettings, Vec<FieldError>> {
    let spec: wire::NotificationChannelSpec = read(value, at).map_err(|mistake| vec![mistake])?;
    let settings = ChannelSettings {
        name: spec.name,
        description: spec.description.unwrap_or_default(),
        kind: spec.kind.into_domain(),
        url: spec.url,
        secret: spec.secret,
        addresses: spec.addresses,
        is_active: spec.is_active,
    };
    let mut mistakes = common_mistakes(at, &settings.name, &settings.description);
    if let Some(secret) = &settings.secret {
        // PostgreSQL would reject it. The existence of the secret is checked later.
        if secret.contains('\0') {
            mistakes.push(FieldError::invalid(format!("{at}/secret"), "must not contain NUL"));
        }
    }
    let wrong = settings.target().mistakes();
    mistakes.extend(
        wrong.into_iter().map(|(field, message)| FieldError::invalid(format!("{at}/{field}"), message)),
    );
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
}

/// Does not check the existence of the resources that it names.
pub(crate) fn read_rule(value: Value, at: &str) -> Result<RuleSettings, Vec<FieldError>> {
    let spec: wire::NotificationRuleSpec = read(value, at).map_err(|mistake| vec![mistake])?;
    let occasions: Vec<Occasion> = spec.on.into_iter().map(wire::Occasion::into_domain).collect();
    let settings = RuleSettings {
        name: spec.name,
        description: spec.description.unwrap_or_default(),
        channel: spec.channel,
        on: Occasion::ALL.iter().copied().filter(|occasion| occasions.contains(occasion)).collect(),
        project: spec.project,
        job: spec.job,
        min_interval_seconds: spec.min_interval_seconds,
        is_active: spec.is_active,
    };
    let mut mistakes = common_mistakes(at, &settings.name, &settings.description);
    if settings.on.is_empty() {
        mistakes.push(FieldError::invalid(
            format!("{at}/on"),
            format!("must have at least one of {}", Occasion::WORDS.join(", ")),
        ));
    }
    if !(0..=LONGEST_INTERVAL).contains(&settings.min_interval_seconds) {
        let message =
            format!("must be between 0 and {LONGEST_INTERVAL}, not {}", settings.min_interval_seconds);
        mistakes.push(FieldError::invalid(format!("{at}/min_interval_seconds"), message));
    }
    let named = [
        ("channel", Some(&settings.channel)),
        ("project", settings.project.as_ref()),
        ("job", settings.job.as_ref()),
    ];
    for (field, name) in named {
        // PostgreSQL would reject it.
        if name.is_some_and(|name| name.contains('\0')) {
            mistakes.push(FieldError::invalid(format!("{at}/{field}"), "must not contain NUL"));
        }
    }
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
}

fn common_mistakes(at: &str, name: &str, description: &str) -> Vec<FieldError> {
    let mut mistakes: Vec<FieldError> = name_mistake(at, "name", name).into_iter().collect();
    if description.chars().count() > LONGEST_DESCRIPTION {
        let message = format!("must be no longer than {LONGEST_DESCRIPTION} characters");
        mistakes.push(FieldError::invalid(format!("{at}/description"), message));
    }
    if description.contains('\0') {
        mistakes.push(FieldError::invalid(format!("{at}/description"), "must not contain NUL"));
    }
    mistakes
}

pub(crate) fn channel_spec(record: ChannelRecord) -> wire::NotificationChannelSpec {
    wire::NotificationChannelSpec {
        name: record.name,
        description: Some(record.description).filter(|text| !text.is_empty()),
        kind: record.kind.into_wire(),
        url: record.url,
        secret: record.secret,
        addresses: record.addresses,
        is_active: record.is_active,
    }
}

pub(crate) fn rule_spec(record: RuleRecord) -> wire::NotificationRuleSpec {
    let settings = record.settings;
    wire::NotificationRuleSpec {
        name: settings.name,
        description: Some(settings.description).filter(|text| !text.is_empty()),
        channel: settings.channel,
        on: settings.on.into_iter().map(Occasion::into_wire).collect(),
        project: settings.project,
        job: settings.job,
        min_interval_seconds: settings.min_interval_seconds,
        is_active: settings.is_active,
    }
}

pub(crate) fn channel(record: ChannelRecord) -> wire::NotificationChannel {
    wire::NotificationChannel {
        id: record.id,
        name: record.name,
        description: record.description,
        kind: record.kind.into_wire(),
        url: record.url,
        secret: record.secret,
        addresses: record.addresses,
        is_active: record.is_active,
        version: record.version,
        created_at: record.created_at,
        created_by: record.created_src,
        updated_at: record.updated_at,
        updated_by: record.updated_src,
    }
}

pub(crate) fn rule(record: RuleRecord) -> wire::NotificationRule {
    let settings = record.settings;
    wire::NotificationRule {
        id: record.id,
        name: settings.name,
        description: settings.description,
        channel: settings.channel,
        on: settings.on.into_iter().map(Occasion::into_wire).collect(),
        project: settings.project,
        job: settings.job,
        min_interval_seconds: settings.min_interval_seconds,
        is_active: settings.is_active,
        version: record.version,
        created_at: record.created_at,
        created_by: record.created_src,
        updated_at: record.updated_at,
        updated_by: record.updated_src,
    }
}

pub(crate) fn delivery(record: DeliveryRecord) -> wire::NotificationDelivery {
    wire::NotificationDelivery {
        id: record.id,
        channel: record.channel_name,
        rule: record.rule_name,
        kind: record.kind.into_wire(),
        job_id: record.job_id,
        run_id: record.subject_dispatch_id,
        body: response::object(record.body),
        held_back: record.held_back,
        status: record.status.into_wire(),
        attempts: record.attempts,
        error_class: record.error_class,
        error: record.error_message,
        reached: record.reached,
        created_at: record.created_at,
        updated_at: record.updated_at,
    }
}
