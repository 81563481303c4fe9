//! Tenants, users, memberships and API keys.

use std::fmt;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::quota::{Quotas, QuotasPatch};

/// Identity and permissions of the caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Me {
    /// Tenant of the request.
    pub tenant: Tenant,
    /// Name of the caller in the audit log: an e-mail address, or the prefix of a key.
    pub actor: String,
    /// E-mail address of the user; absent for a key of the tenant.
    pub user: Option<String>,
    /// Role of the user in the tenant.
    pub role: Option<String>,
    /// Public part of the key of the request.
    pub api_key: Option<String>,
    /// Permissions.
    pub permissions: Vec<String>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tenant {
    /// Identifier.
    pub id: Uuid,
    /// Short stable name.
    pub slug: String,
    /// Display name.
    pub name: String,
    /// Whether it is paused: none of its runs are dispatched.
    pub is_paused: bool,
    /// Reason of the pause.
    pub pause_reason: Option<String>,
    /// Quotas.
    pub quotas: Quotas,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    #[serde(serialize_with = "crate::instants::utc")]
    pub updated_at: DateTime<Utc>,
}

/// Changes of a tenant. Absent fields keep their value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantPatch {
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Quotas.
    #[serde(default)]
    pub quotas: QuotasPatch,
}

/// A new tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSpec {
    /// Short stable name: lower-case letters, digits, hyphens.
    pub slug: String,
    /// Display name; the slug when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// E-mail address of the user that becomes its first owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// Identifier.
    pub id: Uuid,
    /// E-mail address for the sign-in.
    pub email: String,
    /// Display name.
    pub display_name: String,
    /// Whether the user may sign in and the keys of the user are valid.
    pub is_active: bool,
    /// Whether the user operates the installation.
    pub is_system_operator: bool,
    /// Last sign-in.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_login_at: Option<DateTime<Utc>>,
    /// When the user was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
}

/// A new user.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// E-mail address for the sign-in.
    pub email: String,
    /// Display name; the address when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Password, at least 12 characters; without one the user cannot sign in by password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Whether the user operates the installation.
    #[serde(default)]
    pub is_system_operator: bool,
}

/// Changes of a user. Absent fields keep their value.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPatch {
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// New password, at least 12 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Whether the user operates the installation: tenants, users, leadership, workers. At least
    /// one active operator always remains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_system_operator: Option<bool>,
}

/// Omits the password.
impl fmt::Debug for UserPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserPatch").field("display_name", &self.display_name).finish_non_exhaustive()
    }
}

/// Omits the password.
impl fmt::Debug for UserSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserSpec").field("email", &self.email).finish_non_exhaustive()
    }
}

/// An attempt to sign in with a password.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// E-mail address of the user; case is ignored.
    pub email: String,
    /// Password.
    pub password: String,
    /// Slug of the tenant; required only for members of several tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Omits the password.
impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").field("email", &self.email).finish_non_exhaustive()
    }
}

/// A new password for the caller.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordChange {
    /// Current password.
    pub old_password: String,
    /// New password, at least 12 characters.
    pub new_password: String,
}

/// Omits the passwords.
impl fmt::Debug for PasswordChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordChange").finish_non_exhaustive()
    }
}

/// A sign-in of a user to one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Identifier.
    pub id: Uuid,
    /// Whether the request uses this session.
    pub is_current: bool,
    /// When the user signed in.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// Time of the last request, to the minute.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_seen_at: DateTime<Utc>,
    /// When it ends without further requests; each request moves it.
    #[serde(serialize_with = "crate::instants::utc")]
    pub idle_until: DateTime<Utc>,
    /// When it ends even with further requests.
    #[serde(serialize_with = "crate::instants::utc")]
    pub expires_at: DateTime<Utc>,
    /// First part of the User-Agent of the browser.
    pub user_agent: Option<String>,
    /// Network address at the sign-in.
    pub address: Option<String>,
}

/// The session of the caller. Its credential is in the cookie and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnSession {
    /// Send it in the header `X-CSRF-Token` with every request of the session that changes data.
    pub csrf_token: String,
    /// The session.
    pub session: Session,
    /// Identity and permissions of the user.
    pub me: Me,
}

/// Omits the token.
impl fmt::Debug for OwnSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnSession").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A user in a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Membership {
    /// Identifier of the user.
    pub user_id: Uuid,
    /// Address of the user.
    pub email: String,
    /// Display name of the user.
    pub display_name: String,
    /// Whether the user may sign in.
    pub is_active: bool,
    /// Role: viewer, operator, admin or owner.
    pub role: String,
    /// When the membership began.
    #[serde(serialize_with = "crate::instants::utc")]
    pub since: DateTime<Utc>,
}

/// Role of a user in a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MembershipSpec {
    /// viewer, operator, admin or owner.
    pub role: String,
}

/// An API key, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiKey {
    /// Identifier.
    pub id: Uuid,
    /// Purpose of the key.
    pub name: String,
    /// Public part, which identifies it in logs.
    pub prefix: String,
    /// E-mail address of the owner; absent for a key of the tenant.
    pub user: Option<String>,
    /// Permissions, a subset of those of its owner; empty for all of them.
    pub scopes: Vec<String>,
    /// Key of the key file that its hash was created with; absent without a key file.
    pub hash_key: Option<String>,
    /// When it expires.
    #[serde(serialize_with = "crate::instants::utc")]
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    #[serde(serialize_with = "crate::instants::utc")]
    pub revoked_at: Option<DateTime<Utc>>,
    /// Author of the revocation.
    pub revoked_by: Option<String>,
    /// When it was last used, to the minute.
    #[serde(serialize_with = "crate::instants::utc")]
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it was created.
    #[serde(serialize_with = "crate::instants::utc")]
    pub created_at: DateTime<Utc>,
    /// Author of the key.
    pub created_by: String,
}

/// A new API key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeySpec {
    /// Purpose of the key.
    pub name: String,
    /// Permissions; all those of its owner when absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub scopes: Vec<String>,
    /// When it expires; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Whether it belongs to the tenant instead of the user that creates it; such a key requires
    /// scopes.
    #[serde(default)]
    pub of_tenant: bool,
}

/// Changes of an API key, which can only narrow it: fewer scopes, earlier expiry. Absent fields
/// keep their value.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyPatch {
    /// Purpose of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New permissions: one or more of the current scopes, or any scopes if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub scopes: Option<Vec<String>>,
    /// When it expires: in the future, and not later than now set.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "crate::instants::utc")]
    pub expires_at: Option<DateTime<Utc>>,
}

/// A new API key, with its text, which is shown only once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewApiKey {
    /// The key, to be sent as a bearer token. It is shown only in this answer and stored nowhere.
    pub key: String,
    /// The key without its secret, as later answers show it.
    #[serde(flatten)]
    pub api_key: ApiKey,
}

/// Omits the key.
impl fmt::Debug for NewApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewApiKey").field("api_key", &self.api_key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_in_debug_output() {
        let spec: UserSpec = serde_json::from_str(r#"{"email": "a@b", "password": "hunter2"}"#).unwrap();
        assert_eq!(format!("{spec:?}"), "UserSpec { email: \"a@b\", .. }");
    }
}
