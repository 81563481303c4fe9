//! The message in the form that receivers get: the names, words and instants of the API. Pure.

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

use crate::attempt::AttemptOutcome;
use crate::run_state::DispatchStatus;

/// Members with an instant.
const INSTANTS: [&str; 3] = ["at", "fire_time", "last_fire_time"];

/// Replaces names, words and instants of the database by those of the API.
#[must_use]
pub fn published(stored: Map<String, Value>) -> Map<String, Value> {
    let public = |(name, value): (String, Value)| match name.as_str() {
        "status" => {
            let word = value.as_str().and_then(status).map(Value::from);
            (name, word.unwrap_or(value))
        }
        of if INSTANTS.contains(&of) => {
            let text = value.as_str().and_then(instant).map(Value::from);
            (name, text.unwrap_or(value))
        }
        _ => (name, value),
    };
    stored.into_iter().map(public).collect()
}

fn status(stored: &str) -> Option<&'static str> {
    let run = stored.parse::<DispatchStatus>().ok().map(DispatchStatus::public_name);
    run.or_else(|| stored.parse::<AttemptOutcome>().ok().map(AttemptOutcome::public_name))
}

/// PostgreSQL writes an offset, and no zeros at the end of the second.
fn instant(stored: &str) -> Option<String> {
    let at = stored.parse::<DateTime<Utc>>().ok()?;
    Some(at.to_rfc3339_opts(SecondsFormat::Micros, true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn message_has_the_names_words_and_instants_of_the_api() {
        let stored = json!({
            "type": "failure", "at": "2026-11-24T14:27:20.47898+00:00", "fire_time": "2026-11-24T14:27:00+00:00",
            "run_id": "0190", "status": "DEAD_LETTER", "error": "FAILED", "attempt": 3,
        });
        let expected = json!({
            "type": "failure", "at": "2026-11-24T14:27:20.478980Z", "fire_time": "2026-11-24T14:27:00.000000Z",
            "run_id": "0190", "status": "dead_letter", "error": "FAILED", "attempt": 3,
        });
        let Value::Object(stored) = stored else { panic!("{stored}") };
        assert_eq!(Value::Object(published(stored)), expected);
    }
}
