//! Translates column names and SQL states in stored JSON of events and audit entries to public
//! names. Pure.

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
    let is_state = matches!(public, "status" | "run_status");
    let word = if is_state { value.as_str().and_then(state_word) } else { None };
    (public.to_owned(), word.map_or(value, Value::from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stored_members_get_public_names() {
        let stored = json!({
            "dispatch_id": "a", "execution_id": "b", "dispatch_status": "PENDING", "status": "TIMEOUT",
            "reason": "COMPLETED", "task_args": {"status": "FAILED"}, "attempt": 2,
        });
        let public = json!({
            "run_id": "a", "attempt_id": "b", "run_status": "waiting", "status": "timed_out",
            "reason": "COMPLETED", "task_args": {"status": "FAILED"}, "attempt": 2,
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
