//! Translates column names, SQL states and instants in stored JSON of events and audit entries to
//! their public forms. Pure.

use chrono::{DateTime, Utc};
use sched_wire::instant_text;
use serde_json::{Map, Value};

use super::enums::state_word;

/// Nested objects are the user's or have public names already.
pub(crate) fn public_members(stored: Map<String, Value>) -> Map<String, Value> {
    stored.into_iter().map(public_member).collect()
}

pub(crate) fn public_value(stored: Value) -> Value {
    match stored {
        Value::Object(members) => Value::Object(public_members(members)),
        other => other,
    }
}

/// Earlier versions stored `dispatch` for a run.
pub(crate) fn public_target_type(stored: String) -> String {
    if stored == "dispatch" { "run".to_owned() } else { stored }
}

fn public_member((name, value): (String, Value)) -> (String, Value) {
    let public = match &*name {
        "dispatch_id" => "run_id",
        "dispatch_status" => "run_status",
        "execution_id" => "attempt_id",
        other => other,
    };
    let text = value.as_str();
    let shown = match public {
        "status" | "run_status" => text.and_then(state_word).map(Value::from),
        name if is_instant(name) => {
            text.and_then(|text| text.parse::<DateTime<Utc>>().ok()).map(|at| instant_text(at).into())
        }
        _ => None,
    };
    (public.to_owned(), shown.unwrap_or(value))
}

/// By the naming rule of columns: `expires_at`, `scheduled_for`, `paused_until`.
fn is_instant(name: &str) -> bool {
    ["_at", "_for", "_until"].iter().any(|end| name.ends_with(end)) || matches!(name, "since" | "until")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_members_get_public_forms() {
        let stored = json!({
            "dispatch_id": "a", "execution_id": "b", "dispatch_status": "PENDING", "status": "TIMEOUT",
            "reason": "COMPLETED", "task_args": {"status": "FAILED"}, "attempt": 2,
            "scheduled_for": "2026-11-24T14:27:20.47898+00:00", "until": "2026-11-24T15:00:00Z", "since": null,
        });
        let public = json!({
            "run_id": "a", "attempt_id": "b", "run_status": "waiting", "status": "timed_out",
            "reason": "COMPLETED", "task_args": {"status": "FAILED"}, "attempt": 2,
            "scheduled_for": "2026-11-24T14:27:20.478980Z", "until": "2026-11-24T15:00:00.000000Z", "since": null,
        });
        assert_eq!(public_value(stored), public);
        assert_eq!(public_value(Value::Null), Value::Null);
        assert_eq!(public_value(json!({"status": "other"})), json!({"status": "other"}));
    }

    #[test]
    fn old_target_type_is_a_run() {
        assert_eq!(public_target_type("dispatch".to_owned()), "run");
        assert_eq!(public_target_type("job".to_owned()), "job");
    }
}
