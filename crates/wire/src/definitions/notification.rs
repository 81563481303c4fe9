//! Notifications: channels, rules and deliveries.

use std::fmt;

use chrono::{DateTime, Utc};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::enums::{ChannelKind, DeliveryStatus, MessageKind, Occasion};

const fn yes() -> bool {
    true
}

/// A notification channel as written in a file or a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationChannelSpec {
    /// Stable name.
    pub name: String,
    /// Free text; up to 2000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Transport.
    pub kind: ChannelKind,
    /// URL of a webhook; for webhooks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Name of a tenant-wide secret: the signing key of webhooks (`whsec_…`; without one they are
    /// not signed), or the URL of a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// E-mail addresses, 1 to 20; for e-mail only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether rules use it. Occasions while it is inactive are not notified later.
    #[serde(default = "yes")]
    pub is_active: bool,
}

/// A stored notification channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationChannel {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Transport.
    pub kind: ChannelKind,
    /// URL of a webhook; null for other kinds.
    pub url: Option<String>,
    /// Name of the secret that signs webhooks or holds the URL of a chat; null without one.
    pub secret: Option<String>,
    /// E-mail addresses.
    pub addresses: Vec<String>,
    /// Whether rules use it.
    pub is_active: bool,
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
}

/// A notification rule as written in a file or a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationRuleSpec {
    /// Stable name.
    pub name: String,
    /// Free text; up to 2000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Name of the channel.
    pub channel: String,
    /// Occasions; one word, or a list of at least one.
    #[serde(deserialize_with = "one_or_several")]
    #[schemars(schema_with = "schema_of_one_or_several")]
    pub on: Vec<Occasion>,
    /// Only jobs of this project, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only this job, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Minimum seconds between two messages of one kind about one job, up to 604800; occasions in
    /// between are counted in the next message. 0 notifies each one.
    #[serde(default)]
    pub min_interval_seconds: i32,
    /// Whether it notifies. Occasions while it is inactive are not notified later.
    #[serde(default = "yes")]
    pub is_active: bool,
}

/// Accepts a single word as a list of one.
fn one_or_several<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Occasion>, D::Error> {
    struct OneOrSeveral;

    impl<'de> Visitor<'de> for OneOrSeveral {
        type Value = Vec<Occasion>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a word or a list of words")
        }

        fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
            Occasion::deserialize(word.into_deserializer()).map(|one| vec![one])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }

    from.deserialize_any(OneOrSeveral)
}

fn schema_of_one_or_several(generator: &mut SchemaGenerator) -> Schema {
    let (one, several) = (generator.subschema_for::<Occasion>(), generator.subschema_for::<Vec<Occasion>>());
    json_schema!({"anyOf": [one, several]})
}

/// A stored notification rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationRule {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Name of the channel.
    pub channel: String,
    /// Occasions.
    pub on: Vec<Occasion>,
    /// Only of jobs of this project; null for all.
    pub project: Option<String>,
    /// Only of this job; null for all.
    pub job: Option<String>,
    /// Minimum seconds between two messages of one kind about one job.
    pub min_interval_seconds: i32,
    /// Whether it notifies.
    pub is_active: bool,
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
}

/// Parameters of the list of deliveries, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationDeliveriesQuery {
    /// Only deliveries with this status.
    #[serde(default, deserialize_with = "crate::enums::any_case", skip_serializing_if = "Option::is_none")]
    pub status: Option<DeliveryStatus>,
    /// Only deliveries to this channel, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Only deliveries of this rule, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Maximum number of items of the page, 1 to [`MAX_PAGE`](crate::MAX_PAGE);
    /// [`DEFAULT_PAGE`](crate::DEFAULT_PAGE) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; absent for the first page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A message and its delivery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationDelivery {
    /// Identifier, the same over all attempts; receivers of webhooks get it as `webhook-id`.
    pub id: Uuid,
    /// Name of the channel when the message was created.
    pub channel: String,
    /// Name of the rule at that time; null for a test.
    pub rule: Option<String>,
    /// Kind of message.
    pub kind: MessageKind,
    /// Job of the message; null for a test.
    pub job_id: Option<Uuid>,
    /// Run of the message; null for a test, and without a run.
    pub run_id: Option<Uuid>,
    /// The message, as a webhook receives it.
    pub body: Map<String, Value>,
    /// Number of occasions of the same kind about the same job that were not sent since the
    /// previous message.
    pub held_back: i32,
    /// Status of the delivery.
    pub status: DeliveryStatus,
    /// Number of finished attempts.
    pub attempts: i32,
    /// Class of the last error; null unless an attempt failed.
    pub error_class: Option<String>,
    /// Message of the last error; null unless an attempt failed.
    pub error: Option<String>,
    /// Addresses whose server accepted the e-mail; absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// When its status last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_word_is_a_list_of_it() {
        let read = |on: Value| {
            serde_json::from_value::<NotificationRuleSpec>(json!({"name": "a", "channel": "c", "on": on}))
                .map(|rule| rule.on)
                .map_err(|error| error.to_string())
        };
        assert_eq!(read(json!("failure")), Ok(vec![Occasion::Failure]));
        assert_eq!(read(json!(["missed", "failure"])), Ok(vec![Occasion::Missed, Occasion::Failure]));
        for (wrong, said) in [
            (json!("fail"), "`failure`"),
            (json!(["fail"]), "`failure`"),
            (json!(7), "a word or a list of words"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
