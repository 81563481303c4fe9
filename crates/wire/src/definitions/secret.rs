//! Secrets. Values are sent to the API and never returned.

use std::fmt;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A secret that a jobs file expects, by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretReference {
    /// Name, of a secret of the whole tenant or of the project of the jobs.
    pub name: String,
}

/// A new value of a secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretSpec {
    /// The value, 1 byte to 64 KiB of UTF-8.
    #[schemars(length(min = 1, max = 65_536))]
    pub value: String,
}

/// Omits the value.
impl fmt::Debug for SecretSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SecretSpec").finish_non_exhaustive()
    }
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Secret {
    /// Identifier.
    pub id: Uuid,
    /// Stable name; functions refer to it.
    pub name: String,
    /// Project whose jobs may use it; absent for all jobs of the tenant.
    pub project: Option<String>,
    /// Key of the key file that encrypts it.
    pub key: String,
    /// Version; grows with every new value.
    pub version: i64,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// Component or e-mail address that created it.
    pub created_by: String,
    /// When its value was last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
    /// Component or e-mail address that last changed it.
    pub updated_by: String,
}

/// Parameters of a write.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretQuery {
    /// Project whose jobs may use it; all jobs of the tenant when absent.
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
    /// Delete it even if functions name it; their attempts fail afterwards.
    #[serde(default)]
    pub force: bool,
}

/// Result of a key rotation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretsRotated {
    /// The key that now encrypts all readable secrets.
    pub key: String,
    /// Number of secrets that another key encrypted before.
    pub rotated: usize,
    /// Secrets that could not be decrypted, with the reason.
    pub unreadable: Vec<UnreadableSecret>,
}

/// A secret that could not be decrypted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnreadableSecret {
    /// Name of the secret.
    pub name: String,
    /// Reason.
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
