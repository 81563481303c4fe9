//! Notifications: channels, rules and messages, as people write them and as they are kept. Plain data.

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

/// A notification channel as a person writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationChannelSpec {
    /// Stable name.
    pub name: String,
    /// Free text; up to 2000 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How it is reached.
    pub kind: ChannelKind,
    /// Where a webhook is sent; for webhooks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Name of a secret of the whole tenant: the key (`whsec_…`) with which webhooks are signed, which are not signed without one; or the
    /// URL of a chat.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// To whom e-mail goes, 1 to 20; for e-mail only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether rules use it. What happens while it is not active is not told later.
    #[serde(default = "yes")]
    pub is_active: bool,
}

/// A notification channel as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationChannel {
    /// Identifier.
    pub id: Uuid,
    /// Stable name.
    pub name: String,
    /// Free text.
    pub description: String,
    /// How it is reached.
    pub kind: ChannelKind,
    /// Where a webhook is sent; null for others.
    pub url: Option<String>,
    /// Name of the secret that signs webhooks or is the URL of a chat; null without one.
    pub secret: Option<String>,
    /// To whom e-mail goes.
    pub addresses: Vec<String>,
    /// Whether rules use it.
    pub is_active: bool,
    /// Grows with every change.
    pub version: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Which component or whose e-mail created it.
    pub created_by: String,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// Which component or whose e-mail changed it last.
    pub updated_by: String,
}

/// A notification rule as a person writes it.
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
    /// What is told; one word, or a list of one at least.
    #[serde(deserialize_with = "one_or_several")]
    #[schemars(schema_with = "schema_of_one_or_several")]
    pub on: Vec<Occasion>,
    /// Only of jobs of the project of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Only of the job of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Shortest time between two messages of one kind about one job, up to 604800; what happens meanwhile is counted in the next message. 0
    /// tells everything.
    #[serde(default)]
    pub min_interval_seconds: i32,
    /// Whether it tells anything. What happens while it does not is not told later.
    #[serde(default = "yes")]
    pub is_active: bool,
}

/// A word alone is a list of it.
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

/// A notification rule as it is kept.
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
    /// What is told.
    pub on: Vec<Occasion>,
    /// Only of jobs of this project; null for all.
    pub project: Option<String>,
    /// Only of this job; null for all.
    pub job: Option<String>,
    /// Shortest time between two messages of one kind about one job.
    pub min_interval_seconds: i32,
    /// Whether it tells anything.
    pub is_active: bool,
    /// Grows with every change.
    pub version: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Which component or whose e-mail created it.
    pub created_by: String,
    /// When it last changed.
    pub updated_at: DateTime<Utc>,
    /// Which component or whose e-mail changed it last.
    pub updated_by: String,
}

/// Parameters of the list of messages, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NotificationDeliveriesQuery {
    /// Only those that have come so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DeliveryStatus>,
    /// Only those to the channel of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Only those of the rule of this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Most items of the page, 1 to [`MAX_PAGE`](crate::MAX_PAGE); [`DEFAULT_PAGE`](crate::DEFAULT_PAGE) when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u32>,
    /// `next_cursor` of the page before; absent for the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A message, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotificationDelivery {
    /// Identifier, the same over all attempts; receivers of webhooks see it as `webhook-id`.
    pub id: Uuid,
    /// Name of the channel when it was decided upon.
    pub channel: String,
    /// Name of the rule then; null for a test.
    pub rule: Option<String>,
    /// What it tells.
    pub kind: MessageKind,
    /// The job that it is about; null for a test.
    pub job_id: Option<Uuid>,
    /// The run that it is about; null for a test, and where there was none.
    pub run_id: Option<Uuid>,
    /// The message, as a webhook gets it.
    pub body: Map<String, Value>,
    /// How many of the same kind about the same job were not told since the message before.
    pub held_back: i32,
    /// How far it has come.
    pub status: DeliveryStatus,
    /// Attempts that have ended.
    pub attempts: i32,
    /// Kind of error of the last attempt; null unless it failed.
    pub error_class: Option<String>,
    /// What went wrong in the last attempt; null unless it failed.
    pub error: Option<String>,
    /// Addresses whose server has taken the e-mail; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reached: Vec<String>,
    /// When it was decided upon.
    pub created_at: DateTime<Utc>,
    /// When its status last changed.
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
