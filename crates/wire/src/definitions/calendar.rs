//! Calendars: sets of local times at which jobs do not fire, as written and as stored.
//!
//! The fields of a definition stand next to the name, in a file, a request and an answer alike.
//! Only their names are checked here; the API checks their values.

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A calendar as written in a file or a request.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalendarSpec {
    /// Stable name; jobs refer to it.
    pub name: String,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// IANA zone of all its times; the zone of each job when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<Value>,
    /// Days and ranges of days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dates: Option<Value>,
    /// Days of every year, and ranges of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yearly: Option<Value>,
    /// Days of every week, whole or between two times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weekly: Option<Value>,
    /// Periods between two local times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<Value>,
    /// Recurrence rules (RFC 5545).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Value>,
    /// Days and ranges of days that stay included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except: Option<Value>,
}

impl CalendarSpec {
    /// Returns the excluded times as one object.
    #[must_use]
    pub fn into_definition(self) -> Map<String, Value> {
        let Self { name: _, description: _, timezone, dates, yearly, weekly, windows, rules, except } = self;
        let fields = [
            ("timezone", timezone),
            ("dates", dates),
            ("yearly", yearly),
            ("weekly", weekly),
            ("windows", windows),
            ("rules", rules),
            ("except", except),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// A stored calendar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calendar {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Version; grows with every change.
    pub version: i64,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// Component or e-mail address that created it.
    pub created_by: String,
    /// When it was last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
    /// Component or e-mail address that last changed it.
    pub updated_by: String,
    /// Excluded times: the fields of a [`CalendarSpec`] that were set, and fields of newer APIs.
    #[serde(flatten)]
    pub definition: Map<String, Value>,
}

/// A calendar for a preview.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "must be the name of a calendar, or an object with the fields of one")]
pub enum CalendarChoice {
    /// Name of a stored calendar.
    Named(String),
    /// A calendar that is not stored: the fields of a [`CalendarSpec`] without name and
    /// description.
    Inline(Map<String, Value>),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_holds_what_was_given_and_nothing_else() {
        let spec: CalendarSpec = serde_json::from_value(
            json!({"name": "c", "description": "x", "yearly": ["12-25"], "except": []}),
        )
        .unwrap();
        assert_eq!(Value::from(spec.into_definition()), json!({"yearly": ["12-25"], "except": []}));
    }

    #[test]
    fn every_field_of_a_definition_is_read_and_given_back() {
        let fields = ["timezone", "dates", "yearly", "weekly", "windows", "rules", "except"];
        let definition: Map<String, Value> =
            fields.iter().map(|field| ((*field).to_owned(), json!([field]))).collect();
        let mut item = definition.clone();
        item.insert("name".to_owned(), "c".into());
        let spec: CalendarSpec = serde_json::from_value(item.into()).unwrap();
        assert_eq!(spec.into_definition(), definition);
    }

    #[test]
    fn a_misspelt_field_is_refused_with_those_that_are_known() {
        let error = serde_json::from_value::<CalendarSpec>(json!({"name": "c", "date": []})).unwrap_err();
        assert!(error.to_string().contains("`dates`"), "{error}");
    }

    #[test]
    fn a_calendar_is_sent_flat_and_read_with_what_a_newer_api_adds() {
        let kept = json!({
            "id": Uuid::nil(), "name": "c", "description": "", "version": 1,
            "created_at": "2026-11-21T00:00:00.000000Z", "created_by": "api",
            "updated_at": "2026-11-21T00:00:00.000000Z", "updated_by": "api",
            "weekly": ["SAT"], "lunar": ["full"],
        });
        let calendar: Calendar = serde_json::from_value(kept.clone()).unwrap();
        assert_eq!(Value::from(calendar.definition.clone()), json!({"weekly": ["SAT"], "lunar": ["full"]}));
        assert_eq!(serde_json::to_value(&calendar).unwrap(), kept);
    }
}
