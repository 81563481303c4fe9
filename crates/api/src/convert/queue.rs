//! Converts queues. Pure.

use sched_model::definitions::queues::{Queue, QueueSettings};
use sched_wire as wire;
use serde_json::Value;

use super::spec::{LONGEST_DESCRIPTION, name_mistake};
use crate::error::field_error::{FieldError, read};

const LONGEST_PERIOD: i32 = 24 * 60 * 60;
/// Priority of runs whose job and queue set none.
const STANDARD_PRIORITY: i16 = 50;

pub(crate) fn read_queue(name: &str, value: Value) -> Result<QueueSettings, Vec<FieldError>> {
    let spec: wire::QueueSpec = read(value, "").map_err(|mistake| vec![mistake])?;
    settings(name, spec, "")
}

pub(crate) fn read_definition(value: Value, at: &str) -> Result<QueueSettings, Vec<FieldError>> {
    let spec: wire::QueueDefinition = read(value, at).map_err(|mistake| vec![mistake])?;
    let wire::QueueDefinition { name, description, max_running, rate, default_priority } = spec;
    let description = description.unwrap_or_default();
    let spec =
        wire::QueueSpec { description, max_running, rate, default_priority, ..wire::QueueSpec::default() };
    let found = settings(&name, spec, at);
    match name_mistake(at, "name", &name) {
        Some(mistake) => Err(std::iter::once(mistake).chain(found.err().unwrap_or_default()).collect()),
        None => found,
    }
}

fn settings(name: &str, spec: wire::QueueSpec, at: &str) -> Result<QueueSettings, Vec<FieldError>> {
    let mut mistakes = Vec::new();
    let mut check = |is_sound: bool, pointer: &str, message: &str| {
        if !is_sound {
            mistakes.push(FieldError::invalid(format!("{at}{pointer}"), message.to_owned()));
        }
    };
    let is_short = |text: &str| text.chars().count() <= LONGEST_DESCRIPTION && !text.contains('\0');
    check(is_short(&spec.description), "/description", "must be no longer than 2000 characters, without NUL");
    let reason = spec.pause_reason.as_deref();
    check(
        reason.is_none_or(is_short),
        "/pause_reason",
        "must be no longer than 2000 characters, without NUL",
    );
    check(reason.is_none() || spec.is_paused, "/pause_reason", "requires is_paused: true");
    check(spec.max_running.is_none_or(|most| most >= 1), "/max_running", "must be at least 1, or absent");
    if let Some(rate) = spec.rate {
        check(rate.count >= 1, "/rate/count", "must be at least 1");
        let is_sound = (1..=LONGEST_PERIOD).contains(&rate.period_seconds);
        check(is_sound, "/rate/period_seconds", "must be 1 to 86400 seconds");
    }
    let default_priority = spec.default_priority.unwrap_or(STANDARD_PRIORITY);
    check((0..=100).contains(&default_priority), "/default_priority", "must be 0 to 100");
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    Ok(QueueSettings {
        name: name.to_owned(),
        description: spec.description,
        is_paused: spec.is_paused,
        pause_reason: spec.pause_reason,
        max_running: spec.max_running,
        rate_limit_count: spec.rate.map(|rate| rate.count),
        rate_limit_period_seconds: spec.rate.map(|rate| rate.period_seconds),
        default_priority,
    })
}

pub(crate) fn definition(settings: QueueSettings) -> wire::QueueDefinition {
    wire::QueueDefinition {
        rate: rate(&settings),
        name: settings.name,
        description: Some(settings.description).filter(|text| !text.is_empty()),
        max_running: settings.max_running,
        default_priority: Some(settings.default_priority).filter(|priority| *priority != STANDARD_PRIORITY),
    }
}

fn rate(settings: &QueueSettings) -> Option<wire::Rate> {
    let rate = settings.rate_limit_count.zip(settings.rate_limit_period_seconds);
    rate.map(|(count, period_seconds)| wire::Rate { count, period_seconds })
}

pub(crate) fn show(queue: Queue) -> wire::Queue {
    let Queue { settings, created_at, updated_at, running, claimed_in_period, depth, workers } = queue;
    wire::Queue {
        rate: rate(&settings),
        name: settings.name,
        description: settings.description,
        is_paused: settings.is_paused,
        pause_reason: settings.pause_reason,
        max_running: settings.max_running,
        default_priority: settings.default_priority,
        running: Some(running),
        claimed_in_period,
        waiting: depth.waiting,
        waiting_is_at_least: depth.is_at_least,
        oldest_claimable_at: depth.oldest_claimable_at,
        workers: Some(workers),
        created_at,
        updated_at,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn omitted_queue_fields_have_defaults() {
        let settings = read_queue("reports", json!({})).unwrap();
        assert_eq!(
            (settings.name.as_str(), settings.is_paused, settings.default_priority),
            ("reports", false, 50)
        );
        assert_eq!((settings.max_running, settings.rate_limit_count), (None, None));
    }

    #[test]
    fn queue_errors_have_pointers() {
        let value = json!({
            "pause_reason": "why", "max_running": 0, "rate": {"count": 0, "period_seconds": 86_401}, "default_priority": 101
        });
        let pointers: Vec<_> =
            read_queue("a", value).unwrap_err().into_iter().map(|one| one.pointer).collect();
        assert_eq!(
            pointers,
            ["/pause_reason", "/max_running", "/rate/count", "/rate/period_seconds", "/default_priority"]
        );
        assert_eq!(read_queue("a", json!({"rate": {"count": 3}})).unwrap_err().len(), 1);
    }
}
