//! Entries about tenants, users and credentials. They contain no secrets.

use sched_model::domain::identity::Role;
use sched_model::domain::ids::{TenantId, UserId};
use sched_model::identity::api_keys::ApiKeyRecord;
use sched_model::identity::audit::AuditEntry;
use sched_model::identity::sessions::SessionRecord;
use sched_model::identity::tenants::TenantRecord;
use sched_model::identity::users::{Member, UserRecord};
use serde_json::json;

use crate::identity::Actor;

/// A key that was created (`after`) or revoked (`before`).
pub(in crate::routes) fn of_api_key(
    tenant: TenantId,
    before: Option<&ApiKeyRecord>,
    after: Option<&ApiKeyRecord>,
    by: &Actor,
) -> AuditEntry {
    let shown = |key: &ApiKeyRecord| {
        json!({
            "name": key.name,
            "prefix": key.key_prefix,
            "user_id": key.user_id,
            "scopes": key.scopes,
            "expires_at": key.expires_at,
        })
    };
    let id = before.or(after).map(|key| key.id.to_string());
    AuditEntry {
        tenant_id: Some(tenant),
        actor: by.actor.clone(),
        action: match (before, after) {
            (None, _) => "create_api_key",
            (Some(_), Some(_)) => "change_api_key",
            (Some(_), None) => "revoke_api_key",
        },
        target_type: "api_key",
        target_id: id.unwrap_or_default(),
        before: before.map(shown),
        after: after.map(shown),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// An entry of the installation, because the tenant did not exist before.
pub(in crate::routes) fn of_tenant(tenant: &TenantRecord, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: None,
        actor: by.actor.clone(),
        action: "create_tenant",
        target_type: "tenant",
        target_id: tenant.id.to_string(),
        before: None,
        after: Some(json!({"slug": tenant.slug, "name": tenant.name})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// An entry of the installation, because the tenant does not exist any more.
pub(in crate::routes) fn of_deleted_tenant(tenant: &TenantRecord, by: &Actor) -> AuditEntry {
    let shown = json!({"slug": tenant.slug, "name": tenant.name, "quotas": tenant.quotas});
    let entry = of_tenant(tenant, by);
    AuditEntry { action: "delete_tenant", before: Some(shown), after: None, ..entry }
}

pub(in crate::routes) fn of_changed_tenant(
    before: &TenantRecord,
    after: &TenantRecord,
    by: &Actor,
) -> AuditEntry {
    let shown = |tenant: &TenantRecord| json!({"name": tenant.name, "quotas": tenant.quotas});
    AuditEntry {
        tenant_id: Some(after.id),
        actor: by.actor.clone(),
        action: "update_tenant",
        target_type: "tenant",
        target_id: after.id.to_string(),
        before: Some(shown(before)),
        after: Some(shown(after)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// An entry of the installation, like users themselves.
pub(in crate::routes) fn of_user(
    action: &'static str,
    before: Option<&UserRecord>,
    after: &UserRecord,
    by: &Actor,
) -> AuditEntry {
    let shown = |user: &UserRecord| {
        json!({
            "email": user.email,
            "display_name": user.display_name,
            "is_active": user.is_active,
            "is_system_operator": user.is_system_operator,
        })
    };
    AuditEntry {
        tenant_id: None,
        actor: by.actor.clone(),
        action,
        target_type: "user",
        target_id: after.id.to_string(),
        before: before.map(shown),
        after: Some(shown(after)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(in crate::routes) fn of_session(
    tenant: TenantId,
    before: Option<&SessionRecord>,
    after: Option<&SessionRecord>,
    by: &Actor,
) -> AuditEntry {
    let shown = |session: &SessionRecord| {
        json!({
            "user_id": session.user_id,
            "address": session.address,
            "user_agent": session.user_agent,
            "expires_at": session.expires_at,
        })
    };
    let id = before.or(after).map(|session| session.id.to_string());
    AuditEntry {
        tenant_id: Some(tenant),
        actor: by.actor.clone(),
        action: if after.is_some() { "sign_in" } else { "sign_out" },
        target_type: "session",
        target_id: id.unwrap_or_default(),
        before: before.map(shown),
        after: after.map(shown),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(in crate::routes) fn of_own_password(
    tenant: TenantId,
    user: UserId,
    email: &str,
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(tenant),
        actor: by.actor.clone(),
        action: "set_password",
        target_type: "user",
        target_id: user.to_string(),
        before: None,
        after: Some(json!({"email": email})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

pub(in crate::routes) fn of_member(
    tenant: TenantId,
    before: Option<Role>,
    member: &Member,
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(tenant),
        actor: by.actor.clone(),
        action: if before.is_some() { "update_membership" } else { "create_membership" },
        target_type: "membership",
        target_id: member.user.to_string(),
        before: before.map(|role| json!({"email": member.email, "role": role})),
        after: Some(json!({"email": member.email, "role": member.role})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

/// The keys of the user in the tenant end with the membership.
pub(in crate::routes) fn of_removed_member(tenant: TenantId, member: &Member, by: &Actor) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(tenant),
        actor: by.actor.clone(),
        action: "delete_membership",
        target_type: "membership",
        target_id: member.user.to_string(),
        before: Some(json!({"email": member.email, "role": member.role})),
        after: None,
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}
