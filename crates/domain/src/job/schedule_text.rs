//! A schedule as its author wrote it, in one line. Pure.

use serde_json::{Map, Value};

/// The cron expression, or the fields of `schedule_config`; `None` for a job without a schedule.
#[must_use]
pub fn schedule_text(config: &Value) -> Option<String> {
    let config = config.as_object().filter(|config| !config.is_empty())?;
    match config.get("any_of").and_then(Value::as_array) {
        Some(members) => {
            let members: Vec<String> = members.iter().filter_map(schedule_text).collect();
            Some(members.join(" | "))
        }
        None => Some(one(config)),
    }
}

fn one(config: &Map<String, Value>) -> String {
    let expression = config.get("expression").and_then(Value::as_str);
    let rest = config.iter().filter(|(name, _)| expression.is_none() || *name != "expression");
    let fields = rest.map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    });
    expression.map(str::to_owned).into_iter().chain(fields).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schedule_is_shown_in_one_line() {
        for (config, expected) in [
            (json!({}), None),
            (json!({"expression": "0 2 * * MON"}), Some("0 2 * * MON")),
            (json!({"expression": "0 0 13 * FRI", "day_match": "both"}), Some("0 0 13 * FRI day_match=both")),
            (json!({"minutes": 5}), Some("minutes=5")),
            (json!({"at": "2027-01-01T00:00:00Z"}), Some("at=2027-01-01T00:00:00Z")),
            (json!({"any_of": [{"expression": "0 2 * * *"}, {"hour": 4}]}), Some("0 2 * * * | hour=4")),
        ] {
            assert_eq!(schedule_text(&config).as_deref(), expected, "{config}");
        }
    }
}
