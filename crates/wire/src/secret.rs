//! Secrets, as they are written and listed. A value travels to the API and never back. Plain data.

use std::fmt;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The value of a secret on its way to the API.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSpec {
    /// The value, 1 byte to 64 KiB of UTF-8.
    pub value: String,
}

/// Without the value.
impl fmt::Debug for SecretSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSpec").finish_non_exhaustive()
    }
}

/// What is told of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// Identifier.
    pub id: Uuid,
    /// Stable name; functions refer to it.
    pub name: String,
    /// The project whose jobs may have it; absent for all jobs of the tenant.
    pub project: Option<String>,
    /// Which key of the key file it is encrypted with.
    pub key: String,
    /// Grows with every new value.
    pub version: i64,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Which component or whose e-mail created it.
    pub created_by: String,
    /// When its value last changed.
    pub updated_at: DateTime<Utc>,
    /// Which component or whose e-mail changed it.
    pub updated_by: String,
}

/// Parameters of a write.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretQuery {
    /// The project whose jobs may have it; all jobs of the tenant when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
}

/// Parameters of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteSecretQuery {
    /// As in [`SecretQuery`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Delete it even if functions name it; their attempts fail then.
    #[serde(default)]
    pub force: bool,
}

/// What a rotation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretsRotated {
    /// The key that all secrets which could be opened are encrypted with now.
    pub key: String,
    /// How many were encrypted with another key before.
    pub rotated: usize,
    /// Those that could not be opened, and why.
    pub unreadable: Vec<UnreadableSecret>,
}

/// A secret that could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableSecret {
    /// Its name.
    pub name: String,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_not_in_debug_output() {
        let spec: SecretSpec = serde_json::from_str(r#"{"value": "hunter2"}"#).unwrap();
        assert_eq!(format!("{spec:?}"), "SecretSpec { .. }");
    }
}
