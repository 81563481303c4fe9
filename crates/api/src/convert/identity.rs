//! Converts tenants, users, memberships and keys between wire and model. Pure.

use std::collections::BTreeSet;

use sched_model::dispatching::quotas::{QuotaUsage, Quotas};
use sched_model::domain::identity::{
    LONGEST_PASSWORD, Permission, Permissions, Role, check_display_name, check_email, check_password,
    check_slug,
};
use sched_model::domain::ids::SessionId;
use sched_model::identity::api_keys::ApiKeyRecord;
use sched_model::identity::sessions::SessionRecord;
use sched_model::identity::tenants::TenantRecord;
use sched_model::identity::users::{Member, UserRecord};
use sched_wire as wire;
use secrecy::{ExposeSecret as _, SecretString};

use crate::error::field_error::FieldError;
use crate::identity::Identity;

pub(crate) fn me(identity: &Identity, own: TenantRecord) -> wire::Me {
    let caller = identity.caller();
    wire::Me {
        tenant: tenant(own),
        actor: identity.actor().to_owned(),
        user: caller.email.clone(),
        role: caller.role.map(|role| role.to_string()),
        api_key: caller.api_key.clone(),
        permissions: caller.permissions.iter().map(|permission| permission.to_string()).collect(),
    }
}

pub(crate) fn tenant(tenant: TenantRecord) -> wire::Tenant {
    // A constraint has checked them.
    let quotas = tenant.quotas().unwrap_or_default();
    wire::Tenant {
        id: tenant.id.0,
        slug: tenant.slug,
        name: tenant.name,
        is_paused: tenant.is_paused,
        pause_reason: tenant.pause_reason,
        quotas: wire::Quotas {
            jobs: quotas.jobs,
            runs_per_minute: quotas.dispatches_per_minute,
            concurrent_runs: quotas.running_dispatches,
            log_bytes: quotas.log_bytes,
        },
        created_at: tenant.created_at,
        updated_at: tenant.updated_at,
    }
}

/// The largest integer that every JSON reader can hold.
const LARGEST_QUOTA: i64 = 9_007_199_254_740_991;

pub(crate) fn quotas(patch: &wire::QuotasPatch) -> Result<Vec<(&'static str, Option<i64>)>, Vec<FieldError>> {
    let named = [
        ("jobs", "jobs", patch.jobs),
        ("dispatches_per_minute", "runs_per_minute", patch.runs_per_minute),
        ("running_dispatches", "concurrent_runs", patch.concurrent_runs),
        ("log_bytes", "log_bytes", patch.log_bytes),
    ];
    let named: Vec<_> =
        named.into_iter().filter_map(|(stored, name, limit)| Some((stored, name, limit?))).collect();
    let is_wrong = |limit: Option<i64>| limit.is_some_and(|limit| !(0..=LARGEST_QUOTA).contains(&limit));
    let wrong = named.iter().filter(|(_, _, limit)| is_wrong(*limit)).map(|(_, name, _)| {
        let message = format!("must be between 0 and {LARGEST_QUOTA}, or null for no limit");
        FieldError::invalid(format!("/quotas/{name}"), message)
    });
    let mistakes: Vec<FieldError> = wrong.collect();
    if mistakes.is_empty() {
        Ok(named.into_iter().map(|(stored, _, limit)| (stored, limit)).collect())
    } else {
        Err(mistakes)
    }
}

pub(crate) fn usage(slug: String, quotas: Quotas, used: QuotaUsage) -> wire::Usage {
    let of = |limit, used| wire::QuotaUse { limit, used };
    wire::Usage {
        tenant: slug,
        jobs: of(quotas.jobs, Some(used.jobs)),
        runs_per_minute: of(quotas.dispatches_per_minute, used.dispatches),
        concurrent_runs: of(quotas.running_dispatches, Some(used.running)),
        log_bytes: of(quotas.log_bytes, used.log_bytes),
        log_bytes_dropped: used.log_bytes_dropped,
        day: used.day,
    }
}

pub(crate) fn user(user: UserRecord) -> wire::User {
    wire::User {
        id: user.id.0,
        email: user.email,
        display_name: user.display_name,
        is_active: user.is_active,
        is_system_operator: user.is_system_operator,
        last_login_at: user.last_login_at,
        created_at: user.created_at,
    }
}

pub(crate) fn membership(member: Member) -> wire::Membership {
    wire::Membership {
        user_id: member.user.0,
        email: member.email,
        display_name: member.display_name,
        is_active: member.is_active,
        role: member.role.to_string(),
        since: member.since,
    }
}

pub(crate) fn api_key(key: ApiKeyRecord, user: Option<String>) -> wire::ApiKey {
    wire::ApiKey {
        id: key.id.0,
        name: key.name,
        prefix: key.key_prefix,
        user,
        scopes: key.scopes,
        hash_key: key.hash_key_id,
        expires_at: key.expires_at,
        revoked_at: key.revoked_at,
        revoked_by: key.revoked_src,
        last_used_at: key.last_used_at,
        created_at: key.created_at,
        created_by: key.created_src,
    }
}

pub(crate) fn session(session: SessionRecord, current: Option<SessionId>) -> wire::Session {
    wire::Session {
        id: session.id.0,
        is_current: current == Some(session.id),
        created_at: session.created_at,
        last_seen_at: session.last_seen_at,
        idle_until: session.idle_until,
        expires_at: session.expires_at,
        user_agent: session.user_agent,
        address: session.address,
    }
}

/// Checks the form only. The rules for new passwords do not apply: the password may be older than a
/// rule.
pub(crate) fn check_sign_in(sign_in: &wire::SignIn, password: &SecretString) -> Result<(), Vec<FieldError>> {
    let slug = sign_in.tenant.as_deref();
    let mistakes = collect([
        Some(check_email(&sign_in.email).map_err(|what| ("/email", what))),
        Some(check_known_password(password).map_err(|what| ("/password", what))),
        slug.map(|slug| check_slug(slug).map_err(|what| ("/tenant", what))),
    ]);
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

pub(crate) fn check_password_change(old: &SecretString, new: &SecretString) -> Result<(), Vec<FieldError>> {
    let differs = if old.expose_secret() == new.expose_secret() {
        Err(("/new_password", "must differ from the old one"))
    } else {
        Ok(())
    };
    let mistakes = collect([
        Some(check_known_password(old).map_err(|what| ("/old_password", what))),
        Some(check_password(new).map_err(|what| ("/new_password", what))),
        Some(differs),
    ]);
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

fn check_known_password(password: &SecretString) -> Result<(), &'static str> {
    let text = password.expose_secret();
    if (1..=LONGEST_PASSWORD).contains(&text.len()) && !text.contains('\0') {
        Ok(())
    } else {
        Err("must be 1 to 1024 bytes, without NUL characters")
    }
}

pub(crate) fn check_tenant(spec: &wire::TenantSpec) -> Vec<FieldError> {
    let name = spec.name.as_deref().map(|name| check_display_name(name).map_err(|what| ("/name", what)));
    collect([Some(check_slug(&spec.slug).map_err(|what| ("/slug", what))), name])
}

pub(crate) fn check_user(
    spec: wire::UserSpec,
) -> Result<(wire::UserSpec, Option<SecretString>), Vec<FieldError>> {
    let mut spec = spec;
    let password = spec.password.take().map(SecretString::from);
    let name = spec.display_name.as_deref();
    let mistakes = collect([
        Some(check_email(&spec.email).map_err(|what| ("/email", what))),
        name.map(|name| check_display_name(name).map_err(|what| ("/display_name", what))),
        password.as_ref().map(|password| check_password(password).map_err(|what| ("/password", what))),
    ]);
    if mistakes.is_empty() { Ok((spec, password)) } else { Err(mistakes) }
}

pub(crate) fn check_user_patch(
    patch: wire::UserPatch,
) -> Result<(Option<String>, Option<SecretString>), Vec<FieldError>> {
    let password = patch.password.map(SecretString::from);
    let name = patch.display_name;
    let mistakes = collect([
        name.as_deref().map(|name| check_display_name(name).map_err(|what| ("/display_name", what))),
        password.as_ref().map(|password| check_password(password).map_err(|what| ("/password", what))),
    ]);
    if mistakes.is_empty() { Ok((name, password)) } else { Err(mistakes) }
}

fn collect<const N: usize>(checks: [Option<Result<(), (&str, &str)>>; N]) -> Vec<FieldError> {
    let wrong = checks.into_iter().flatten().filter_map(Result::err);
    wrong.map(|(pointer, what)| FieldError::invalid(pointer, what)).collect()
}

pub(crate) fn role(spec: &wire::MembershipSpec) -> Result<Role, FieldError> {
    spec.role
        .parse()
        .map_err(|error: sched_model::domain::UnknownWord| FieldError::invalid("/role", error.to_string()))
}

/// Limit of scopes in a request; fewer exist.
const MOST_SCOPES: usize = 32;

/// `None` when the request names none.
pub(crate) fn scopes(spec: &wire::ApiKeySpec) -> Result<Option<Permissions>, Vec<FieldError>> {
    let mut mistakes = named(Some(&spec.name));
    let scopes = read_scopes(&spec.scopes, spec.of_tenant, &mut mistakes);
    if mistakes.is_empty() { Ok(scopes) } else { Err(mistakes) }
}

/// `None` when the patch does not change them.
pub(crate) fn scopes_left(patch: &wire::ApiKeyPatch) -> Result<Option<Permissions>, Vec<FieldError>> {
    let mut mistakes = named(patch.name.as_deref());
    let Some(words) = &patch.scopes else {
        return if mistakes.is_empty() { Ok(None) } else { Err(mistakes) };
    };
    if words.is_empty() {
        let message = "must name at least one of its present scopes; to remove all, revoke the key";
        mistakes.push(FieldError::invalid("/scopes", message));
    }
    let scopes = read_scopes(words, false, &mut mistakes);
    if mistakes.is_empty() { Ok(scopes) } else { Err(mistakes) }
}

fn named(name: Option<&str>) -> Vec<FieldError> {
    collect([name.map(|name| check_display_name(name).map_err(|what| ("/name", what)))])
}

fn read_scopes(words: &[String], is_of_tenant: bool, mistakes: &mut Vec<FieldError>) -> Option<Permissions> {
    if words.len() > MOST_SCOPES {
        mistakes.push(FieldError::invalid("/scopes", format!("names more than {MOST_SCOPES}")));
        return None;
    }
    let mut scopes = BTreeSet::new();
    for (index, word) in words.iter().enumerate() {
        match word.parse::<Permission>() {
            Ok(scope) if is_of_tenant && scope.least_role().is_none() => mistakes.push(FieldError::invalid(
                format!("/scopes/{index}"),
                "is a scope of the installation, which a key of a tenant cannot have",
            )),
            Ok(scope) => _ = scopes.insert(scope),
            Err(error) => mistakes.push(FieldError::invalid(format!("/scopes/{index}"), error.to_string())),
        }
    }
    (!scopes.is_empty()).then(|| scopes.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use sched_model::domain::retry::{LONGEST_CLASS, MOST_CLASSES};
    use schemars::{JsonSchema, schema_for};
    use serde_json::Value;

    use super::*;

    #[test]
    fn number_of_scopes_is_limited() {
        let scopes_of = |count| {
            let spec = wire::ApiKeySpec {
                name: "x".into(),
                scopes: vec!["jobs:read".into(); count],
                ..wire::ApiKeySpec::default()
            };
            scopes(&spec)
        };
        assert_eq!(scopes_of(MOST_SCOPES).unwrap().unwrap().iter().count(), 1);
        let refused = scopes_of(MOST_SCOPES + 1).unwrap_err();
        assert!(refused.len() == 1 && refused[0].pointer == "/scopes", "{refused:?}");
    }

    #[test]
    fn list_limits_are_in_the_schemas() {
        fn field<T: JsonSchema>(name: &str) -> Value {
            schema_for!(T).to_value()["properties"][name].clone()
        }
        assert_eq!(field::<wire::ApiKeySpec>("scopes")["maxItems"], MOST_SCOPES);
        let classes = field::<wire::RetryPolicySpec>("non_retryable");
        assert_eq!(classes["maxItems"], MOST_CLASSES);
        assert_eq!(
            (&classes["items"]["minLength"], &classes["items"]["maxLength"]),
            (&1.into(), &LONGEST_CLASS.into())
        );
    }
}
