//! The caller of a request and its tenant.

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use chrono::{DateTime, Utc};
use sched_model::domain::identity::{Permission, Permissions, Principal, Role};
use sched_model::domain::ids::{SessionId, TenantId, UserId};
use sched_model::identity::api_keys::FoundKey;
use sched_model::identity::sessions::FoundSession;
use sched_model::identity::sign_ins::{Account, AccountMembership};
use sched_model::identity::users::FoundMember;

use crate::error::ApiError;

/// The authenticated caller; the only access to its tenant.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<Caller>);

#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantId,
    pub(crate) user: Option<UserId>,
    pub(crate) email: Option<String>,
    pub(crate) role: Option<Role>,
    /// The public prefix of the API key of the request.
    pub(crate) api_key: Option<String>,
    /// The session of the cookie of the request.
    pub(crate) session: Option<SessionId>,
    pub(crate) permissions: Permissions,
    /// Whether scopes narrow the permissions of the user or the tenant.
    pub(crate) is_bounded: bool,
    /// The expiry of the key of the request.
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// The name of the caller in the audit log.
    actor: String,
}

impl Caller {
    /// Whether an external token identifies the caller: neither an API key nor a session.
    pub(crate) const fn is_by_token(&self) -> bool {
        self.api_key.is_none() && self.session.is_none()
    }
}

impl Identity {
    /// The key was checked.
    pub(super) fn of_key(found: FoundKey, prefix: &str, permissions: Permissions) -> Self {
        let actor = match &found.email {
            Some(email) => format!("{email} via {prefix}"),
            None => prefix.to_owned(),
        };
        let is_bounded = found.is_bounded();
        Self(Arc::new(Caller {
            tenant: found.tenant,
            user: found.user,
            email: found.email,
            role: found.role,
            api_key: Some(prefix.to_owned()),
            session: None,
            permissions,
            is_bounded,
            expires_at: found.expires_at,
            actor,
        }))
    }

    /// Something other than an API key identifies the member.
    pub(super) fn of_member(found: FoundMember, permissions: Permissions, is_bounded: bool) -> Self {
        Self(Arc::new(Caller {
            tenant: found.tenant,
            user: Some(found.user),
            actor: format!("{} via token", found.email),
            email: Some(found.email),
            role: Some(found.role),
            api_key: None,
            session: None,
            permissions,
            is_bounded,
            expires_at: None,
        }))
    }

    /// The session was checked.
    pub(super) fn of_session(found: FoundSession, permissions: Permissions) -> Self {
        Self(Arc::new(Caller {
            tenant: found.tenant,
            user: Some(found.user),
            actor: format!("{} via session", found.email),
            email: Some(found.email),
            role: Some(found.role),
            api_key: None,
            session: Some(found.id),
            permissions,
            is_bounded: false,
            // The user signed in personally: keys that the user creates may outlast the session.
            expires_at: None,
        }))
    }

    /// The password was verified.
    pub(crate) fn of_new_session(
        account: &Account,
        membership: &AccountMembership,
        session: SessionId,
    ) -> Self {
        let principal =
            Principal::Member { role: membership.role, is_system_operator: account.is_system_operator };
        Self(Arc::new(Caller {
            tenant: membership.tenant,
            user: Some(account.user),
            actor: format!("{} via session", account.email),
            email: Some(account.email.clone()),
            role: Some(membership.role),
            api_key: None,
            session: Some(session),
            permissions: principal.permissions(None),
            is_bounded: false,
            expires_at: None,
        }))
    }

    pub(crate) fn with_session(&self, session: SessionId) -> Self {
        let known = &self.0;
        Self(Arc::new(Caller {
            email: known.email.clone(),
            api_key: known.api_key.clone(),
            session: Some(session),
            actor: known.actor.clone(),
            ..**known
        }))
    }

    pub(crate) fn tenant(&self) -> TenantId {
        self.0.tenant
    }

    pub(crate) fn operates(&self) -> bool {
        self.0.permissions.has(Permission::SystemOperate)
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.0
    }

    pub(crate) fn actor(&self) -> &str {
        &self.0.actor
    }

    /// Stored in rows: an e-mail, or the prefix of a key of the tenant.
    pub(super) fn source(&self) -> &str {
        self.0.email.as_deref().or(self.0.api_key.as_deref()).unwrap_or(&self.0.actor)
    }

    /// The name of the rate limit bucket: each key has its own.
    pub(crate) fn budget(&self) -> &str {
        self.0.api_key.as_deref().unwrap_or(&self.0.actor)
    }
}

impl FromRequest for Identity {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request.extensions().get::<Self>().cloned().ok_or(ApiError::Unauthenticated(None)))
    }
}
