//! Who sends a request, and what they may do.
//!
//! Every path of the API is authenticated before it is routed ([`authenticate`], called by [`crate::guard`]); a route then asks
//! for one permission ([`crate::permit`]), and its handler takes the [`Identity`], which is the only way to a tenant. What a key
//! may do is read from the database and believed for [`cache::FOR`]; nothing is written but when a key was last used. A process
//! that dies has lost nothing but what it believed.

mod bearer;
mod cache;
mod jwt;
mod rate;

use std::future::{Ready, ready};
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::header::HeaderMap;
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use chrono::{DateTime, Utc};
use sched_model::db::Conn;
use sched_model::db::api_keys::{self, FoundKey, KeyRefusal};
use sched_model::db::users::FoundMember;
use sched_model::domain::identity::jwt::UnverifiedJwt;
use sched_model::domain::identity::{ApiKey, Permission, Permissions, Role, fingerprint};
use sched_model::domain::ids::{TenantId, UserId};
use sched_model::domain::secret::SecretKeys;
use sched_model::domain::trace::TraceContext;
use sched_runtime::clock::monotonic;

use crate::error::ApiError;
use crate::once::Once;
use crate::state::ApiState;

pub(crate) use cache::Cache;
pub(crate) use jwt::Tokens;
pub(crate) use rate::Rates;

/// Who acts, and in which tenant.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<Known>);

/// What is known of who acts.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) tenant: TenantId,
    pub(crate) user: Option<UserId>,
    pub(crate) email: Option<String>,
    pub(crate) role: Option<Role>,
    /// The public part of the key that was shown.
    pub(crate) api_key: Option<String>,
    pub(crate) permissions: Permissions,
    /// Whether scopes take something from what the user or the tenant may.
    pub(crate) is_bounded: bool,
    /// When the key that was shown ends.
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// Who acts, as the audit log keeps it.
    actor: String,
}

impl Identity {
    /// The identity of a key that is kept, once it has been judged.
    fn of_key(found: FoundKey, prefix: &str, permissions: Permissions) -> Self {
        let actor = match &found.email {
            Some(email) => format!("{email} via {prefix}"),
            None => prefix.to_owned(),
        };
        let is_bounded = found.is_bounded();
        Self(Arc::new(Known {
            tenant: found.tenant,
            user: found.user,
            email: found.email,
            role: found.role,
            api_key: Some(prefix.to_owned()),
            permissions,
            is_bounded,
            expires_at: found.expires_at,
            actor,
        }))
    }

    /// The identity of a member whom something else than a key of ours names.
    fn of_member(found: FoundMember, permissions: Permissions, is_bounded: bool) -> Self {
        Self(Arc::new(Known {
            tenant: found.tenant,
            user: Some(found.user),
            actor: format!("{} via token", found.email),
            email: Some(found.email),
            role: Some(found.role),
            api_key: None,
            permissions,
            is_bounded,
            expires_at: None,
        }))
    }

    /// The tenant in which the request acts.
    pub(crate) fn tenant(&self) -> TenantId {
        self.0.tenant
    }

    /// All that is known.
    pub(crate) fn known(&self) -> &Known {
        &self.0
    }

    /// Who acts, as the audit log keeps it.
    pub(crate) fn actor(&self) -> &str {
        &self.0.actor
    }

    /// Who acts, as rows keep it: an e-mail, or the prefix of a key of the tenant.
    fn source(&self) -> &str {
        self.0.email.as_deref().or(self.0.api_key.as_deref()).unwrap_or(&self.0.actor)
    }

    /// What requests are counted by: each key has a budget of its own.
    pub(crate) fn budget(&self) -> &str {
        self.0.api_key.as_deref().unwrap_or(&self.0.actor)
    }

    /// What signs the changes of a request.
    pub(crate) fn signs(&self, request: &str, trace: TraceContext, once: Option<Once>) -> Signed {
        Signed(By {
            actor: self.actor().to_owned(),
            source: self.source().to_owned(),
            request: request.to_owned(),
            trace,
            once,
        })
    }
}

impl FromRequest for Identity {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(request.extensions().get::<Self>().cloned().ok_or(ApiError::Unauthenticated(None)))
    }
}

/// On whose behalf something is changed.
#[derive(Debug, Clone)]
pub(crate) struct By {
    /// Who, for the audit log.
    pub(crate) actor: String,
    /// Who, for the row itself.
    pub(crate) source: String,
    /// The id of the request.
    pub(crate) request: String,
    /// The span of the request: what it causes is part of it.
    pub(crate) trace: TraceContext,
    /// The request, if it is to be done once however often it is sent.
    pub(crate) once: Option<Once>,
}

impl By {
    /// The key under which the request is to be done once.
    pub(crate) fn key(&self) -> Option<&str> {
        self.once.as_ref().map(Once::key)
    }

    /// The same for what keeps the key itself, as a trigger does: its answer is not kept besides.
    pub(crate) fn with_key_of_its_own(&self) -> Self {
        Self { once: None, ..self.clone() }
    }
}

/// [`By`], as requests carry it.
#[derive(Debug, Clone)]
pub(crate) struct Signed(pub(crate) By);

/// What requests need to be told apart by.
#[derive(Debug)]
pub(crate) struct Identities {
    /// The environment whose keys are taken.
    pub(crate) environment: String,
    tokens: Option<Tokens>,
    cache: Cache,
    rates: Rates,
}

impl Identities {
    /// Nobody is known yet. `rate` is how many requests a second one key may send; 0 for any number.
    pub(crate) fn new(environment: String, rate: u32, tokens: Option<Tokens>) -> Self {
        Self { environment, tokens, cache: Cache::default(), rates: Rates::new(rate) }
    }

    /// Believes a key no longer that was revoked here.
    pub(crate) fn forget(&self, prefix: &str) {
        self.cache.forget(prefix);
    }
}

/// Finds out who sends a request with these headers, and whether they may send one more now.
///
/// # Errors
/// Nobody that is known, too many requests, or the database cannot be asked.
pub(crate) async fn authenticate(state: &ApiState, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let identity = recognise(state, headers).await?;
    state.identities.rates.take(identity.budget(), monotonic())?;
    Ok(identity)
}

/// Whether who sent a request with these headers may still do this in the tenant, for answers that go on for long. While the database
/// cannot be asked, nothing changes.
pub(crate) async fn may_still(
    state: &ApiState,
    headers: &HeaderMap,
    tenant: TenantId,
    permission: Permission,
) -> bool {
    match recognise(state, headers).await {
        Ok(identity) => identity.tenant() == tenant && identity.known().permissions.has(permission),
        Err(ApiError::Unauthenticated(_)) => false,
        Err(_) => true,
    }
}

async fn recognise(state: &ApiState, headers: &HeaderMap) -> Result<Identity, ApiError> {
    let identities = &state.identities;
    let token = bearer::token(headers)?;
    let shown = shown(identities, token)?;
    if !state.is_open() {
        return Err(ApiError::Starting);
    }
    let now = monotonic();
    // The fingerprint is of the whole token: a wrong secret under a known prefix is no hit.
    let fingerprint = fingerprint(token);
    let identity = match identities.cache.get(&fingerprint, now) {
        Some(identity) => identity,
        None => {
            let identity = match shown {
                Shown::Key(key) => look_up(state, &key).await?,
                Shown::Token(tokens, token) => jwt::look_up(state, tokens, token).await?,
            };
            // Believed from before the look, so that a slow answer is not believed longer.
            identities.cache.put(fingerprint, identity.clone(), now);
            identity
        }
    };
    Ok(identity)
}

/// What it takes to look into the database without a tenant; only made here.
#[derive(Debug)]
pub(crate) struct Recognising(());

/// What was shown, by its form.
enum Shown<'a> {
    Key(ApiKey),
    Token(&'a Tokens, UnverifiedJwt<'a>),
}

fn shown<'a>(identities: &'a Identities, token: &'a str) -> Result<Shown<'a>, ApiError> {
    // No part of a key holds a dot.
    if let (Some(tokens), Some(token)) = (&identities.tokens, UnverifiedJwt::new(token)) {
        return Ok(Shown::Token(tokens, token));
    }
    let key = ApiKey::parse(token).map_err(|error| ApiError::Unauthenticated(Some(error.to_string())))?;
    if key.environment() != identities.environment {
        let message = format!("the key is one of environment {:?}, and this is another", key.environment());
        return Err(ApiError::Unauthenticated(Some(message)));
    }
    Ok(Shown::Key(key))
}

async fn look_up(state: &ApiState, key: &ApiKey) -> Result<Identity, ApiError> {
    let this = Recognising(());
    let found = state.recognise(&this, "find_api_key", async |conn: &mut Conn| {
        Ok(api_keys::find(conn, key.prefix()).await?)
    });
    let found = found.await?;
    let found = found.ok_or_else(|| ApiError::Unauthenticated(Some(KeyRefusal::Wrong.to_string())))?;
    let permissions = judge(&found, key, state.ring())?;
    if found.is_to_be_touched {
        let touch = state.note(&this, found.tenant, "touch_api_key", async |conn: &mut Conn| {
            api_keys::touch(conn, found.tenant, found.id).await
        });
        if let Err(error) = touch.await {
            tracing::warn!(error = error.with_causes(), "The last use of a key could not be noted.");
        }
    }
    Ok(Identity::of_key(found, key.prefix(), permissions))
}

fn judge(found: &FoundKey, key: &ApiKey, ring: Option<&SecretKeys>) -> Result<Permissions, ApiError> {
    found.judge(key, ring).map_err(|refusal| {
        let told = match &refusal {
            KeyRefusal::Unverifiable(_) => {
                tracing::error!(api_key = key.prefix(), error = %refusal, "A key cannot be verified.");
                KeyRefusal::Wrong.to_string()
            }
            KeyRefusal::Wrong | KeyRefusal::Revoked | KeyRefusal::Expired | KeyRefusal::Inactive => {
                refusal.to_string()
            }
        };
        ApiError::Unauthenticated(Some(told))
    })
}
