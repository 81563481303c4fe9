//! Tenants, users, memberships and API keys, as they are written and listed. Plain data.

use std::fmt;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::quota::{Quotas, QuotasPatch};

/// Who the caller is, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Me {
    /// The tenant in which the caller acts.
    pub tenant: Tenant,
    /// How the audit log calls the caller: an e-mail, or the prefix of a key.
    pub actor: String,
    /// The user, unless the caller is a key of the tenant.
    pub user: Option<String>,
    /// What the user is in the tenant.
    pub role: Option<String>,
    /// The public part of the key that was shown.
    pub api_key: Option<String>,
    /// What the caller may do.
    pub permissions: Vec<String>,
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tenant {
    /// Identifier.
    pub id: Uuid,
    /// Short stable name.
    pub slug: String,
    /// Name for people.
    pub name: String,
    /// Whether nothing of it is dispatched.
    pub is_paused: bool,
    /// Why it is paused.
    pub pause_reason: Option<String>,
    /// What it may use.
    pub quotas: Quotas,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What is to be different about a tenant. What is left out stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantPatch {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it may use.
    #[serde(default)]
    pub quotas: QuotasPatch,
}

/// A tenant to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantSpec {
    /// Short stable name: lower-case letters, digits, hyphens.
    pub slug: String,
    /// Name for people; the slug when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Address of the user who becomes its first owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// Identifier.
    pub id: Uuid,
    /// Address to sign in with.
    pub email: String,
    /// Name for people.
    pub display_name: String,
    /// Whether the user may sign in and their keys are taken.
    pub is_active: bool,
    /// Whether the user operates the installation.
    pub is_system_operator: bool,
    /// Last sign-in.
    pub last_login_at: Option<DateTime<Utc>>,
    /// When the user was made.
    pub created_at: DateTime<Utc>,
}

/// A user to be made.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserSpec {
    /// Address to sign in with.
    pub email: String,
    /// Name for people; the address when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Password, at least 12 characters; without one the user signs in by other means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Whether the user operates the installation.
    #[serde(default)]
    pub is_system_operator: bool,
}

/// What is to be different about a user. What is left out stays.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserPatch {
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// New password, at least 12 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
    /// Whether they operate the installation: tenants, users, leadership, workers. One active operator always stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_system_operator: Option<bool>,
}

/// Without the password.
impl fmt::Debug for UserPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserPatch").field("display_name", &self.display_name).finish_non_exhaustive()
    }
}

/// Without the password.
impl fmt::Debug for UserSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserSpec").field("email", &self.email).finish_non_exhaustive()
    }
}

/// An attempt to sign in with a password.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// Address of the user, whatever its case.
    pub email: String,
    /// Their password.
    pub password: String,
    /// Slug of the tenant to act in; needed only by who is a member of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// Without the password.
impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").field("email", &self.email).finish_non_exhaustive()
    }
}

/// Another password for the caller.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PasswordChange {
    /// The password until now.
    pub old_password: String,
    /// The one from now on, at least 12 characters.
    pub new_password: String,
}

/// Without the passwords.
impl fmt::Debug for PasswordChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordChange").finish_non_exhaustive()
    }
}

/// Somebody who is signed in, in one tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Session {
    /// Identifier.
    pub id: Uuid,
    /// Whether it is the one that asks.
    pub is_current: bool,
    /// When they signed in.
    pub created_at: DateTime<Utc>,
    /// When they were last here, to the minute.
    pub last_seen_at: DateTime<Utc>,
    /// When it ends unless it is used; put off by using it.
    pub idle_until: DateTime<Utc>,
    /// When it ends however much it is used.
    pub expires_at: DateTime<Utc>,
    /// The beginning of what their browser says that it is.
    pub user_agent: Option<String>,
    /// Where they signed in from.
    pub address: Option<String>,
}

/// The caller's own session. What proves it is in the cookie and nowhere else.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnSession {
    /// To be sent in the header `X-CSRF-Token` with every request of the session that changes something.
    pub csrf_token: String,
    /// The session.
    pub session: Session,
    /// Who signed in, and what they may do.
    pub me: Me,
}

/// Without the token.
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
    /// Name of the user.
    pub display_name: String,
    /// Whether the user may sign in.
    pub is_active: bool,
    /// What the user is: viewer, operator, admin or owner.
    pub role: String,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// What a user is to be in a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MembershipSpec {
    /// viewer, operator, admin or owner.
    pub role: String,
}

/// What is told of an API key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiKey {
    /// Identifier.
    pub id: Uuid,
    /// What it is for.
    pub name: String,
    /// Its public part, by which logs call it.
    pub prefix: String,
    /// Address of the user who owns it; absent for a key of the tenant.
    pub user: Option<String>,
    /// What it may do, of what its owner may; empty for all of that.
    pub scopes: Vec<String>,
    /// Which key of the key file its hash was made with; absent when there was none.
    pub hash_key: Option<String>,
    /// When it ends.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was revoked.
    pub revoked_at: Option<DateTime<Utc>>,
    /// Who revoked it.
    pub revoked_by: Option<String>,
    /// When it was last used, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Who made it.
    pub created_by: String,
}

/// An API key to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeySpec {
    /// What it is for.
    pub name: String,
    /// What it may do; all that its owner may when absent or empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub scopes: Vec<String>,
    /// When it ends; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// Whether it belongs to the tenant instead of the user who makes it; it needs scopes then.
    #[serde(default)]
    pub of_tenant: bool,
}

/// What is to be different about an API key, which may come to do less and to end sooner, and never the other way round. What is left out stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyPatch {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it may do from now on: one or more of the scopes it has, or any if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    pub scopes: Option<Vec<String>>,
    /// When it ends: in the future, and no later than it does now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
}

/// An API key that was just made, with the one showing of its text.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NewApiKey {
    /// The key to be sent as a bearer token. It is shown this once and kept nowhere.
    pub key: String,
    /// What is told of it from now on.
    #[serde(flatten)]
    pub api_key: ApiKey,
}

/// Without the key.
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
