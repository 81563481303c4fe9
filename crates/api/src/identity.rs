//! Authentication: the caller of a request and its permissions.
//!
//! Every path of the API is authenticated before routing ([`authenticate`], called by
//! [`crate::http::middleware`]). A route then requires one permission ([`crate::http::route`]), and
//! its handler receives the [`Identity`], the only access to a tenant. The permissions of a key are
//! read from the database and cached for [`cache::FOR`]. The only write is the time of a key's last
//! use. A process that dies loses only its cache.

mod bearer;
mod cache;
mod jwt;
mod passwords;
mod rate;
mod sessions;

use std::future::{Ready, ready};
use std::net::IpAddr;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::{FromRequest, HttpMessage, HttpRequest};
use chrono::{DateTime, Utc};
use sched_model::Conn;
use sched_model::domain::identity::jwt::UnverifiedJwt;
use sched_model::domain::identity::{
    ApiKey, Permission, Permissions, Role, SessionToken, Standing, fingerprint,
};
use sched_model::domain::ids::{SessionId, TenantId, UserId};
use sched_model::domain::secret::SecretKeys;
use sched_model::domain::trace::TraceContext;
use sched_model::identity::api_keys::{self, FoundKey, KeyRefusal};
use sched_model::identity::sessions::FoundSession;
use sched_model::identity::sign_ins::{Account, AccountMembership};
use sched_model::identity::users::FoundMember;
use sched_runtime::monotonic_clock::monotonic;
use secrecy::ExposeSecret as _;

use crate::error::ApiError;
use crate::http::idempotency::IdempotentRequest;
use crate::http::origin;
use crate::state::ApiState;

pub(crate) use cache::Cache;
use cache::Fingerprint;
pub(crate) use jwt::Tokens;
pub(crate) use passwords::{Claim, FailedSignIn, Verdict, forgive, record_failed_sign_in, verify};
pub(crate) use rate::Rates;
pub(crate) use sessions::{clear_cookie, cookie, set_cookie};

/// The authenticated caller and its tenant.
#[derive(Debug, Clone)]
pub(crate) struct Identity(Arc<Caller>);

/// Facts about a caller.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) tenant: TenantId,
    pub(crate) user: Option<UserId>,
    pub(crate) email: Option<String>,
    pub(crate) role: Option<Role>,
    /// The public prefix of the API key of the request.
    pub(crate) api_key: Option<String>,
    /// The session of the request's cookie.
    pub(crate) session: Option<SessionId>,
    pub(crate) permissions: Permissions,
    /// Whether scopes narrow the permissions of the user or the tenant.
    pub(crate) is_bounded: bool,
    /// When the key of the request expires.
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// The caller's name in the audit log.
    actor: String,
}

impl Caller {
    /// Reports whether an external token identifies the caller: neither an API key nor a session.
    pub(crate) const fn is_by_token(&self) -> bool {
        self.api_key.is_none() && self.session.is_none()
    }
}

impl Identity {
    /// The identity of a stored key, after its check.
    fn of_key(found: FoundKey, prefix: &str, permissions: Permissions) -> Self {
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

    /// The identity of a member that something other than an API key identifies.
    fn of_member(found: FoundMember, permissions: Permissions, is_bounded: bool) -> Self {
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

    /// The identity of a stored session, after its check.
    fn of_session(found: FoundSession, permissions: Permissions) -> Self {
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

    /// The identity of a new session, after the password was verified.
    pub(crate) fn of_new_session(
        account: &Account,
        membership: &AccountMembership,
        session: SessionId,
    ) -> Self {
        let standing =
            Standing::Member { role: membership.role, is_system_operator: account.is_system_operator };
        Self(Arc::new(Caller {
            tenant: membership.tenant,
            user: Some(account.user),
            actor: format!("{} via session", account.email),
            email: Some(account.email.clone()),
            role: Some(membership.role),
            api_key: None,
            session: Some(session),
            permissions: standing.permissions(None),
            is_bounded: false,
            expires_at: None,
        }))
    }

    /// The same caller in another session.
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

    /// The tenant in which the request acts.
    pub(crate) fn tenant(&self) -> TenantId {
        self.0.tenant
    }

    /// Reports whether the caller is a system operator.
    pub(crate) fn operates(&self) -> bool {
        self.0.permissions.has(Permission::SystemOperate)
    }

    pub(crate) fn known(&self) -> &Caller {
        &self.0
    }

    /// The caller's name in the audit log.
    pub(crate) fn actor(&self) -> &str {
        &self.0.actor
    }

    /// The caller's name in rows: an e-mail, or the prefix of a key of the tenant.
    fn source(&self) -> &str {
        self.0.email.as_deref().or(self.0.api_key.as_deref()).unwrap_or(&self.0.actor)
    }

    /// The name of the rate limit bucket: each key has its own.
    pub(crate) fn budget(&self) -> &str {
        self.0.api_key.as_deref().unwrap_or(&self.0.actor)
    }

    /// The actor of the changes of a request.
    pub(crate) fn signs(
        &self,
        request: &str,
        address: Option<String>,
        trace: TraceContext,
        once: Option<IdempotentRequest>,
    ) -> RequestActor {
        RequestActor(Actor {
            actor: self.actor().to_owned(),
            source: self.source().to_owned(),
            request: request.to_owned(),
            address,
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

/// The actor of a change.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    /// Name in the audit log.
    pub(crate) actor: String,
    /// Name in the row itself.
    pub(crate) source: String,
    /// Id of the request.
    pub(crate) request: String,
    /// Network address of the client.
    pub(crate) address: Option<String>,
    /// Span of the request: effects of the request belong to it.
    pub(crate) trace: TraceContext,
    /// Set for a request with an idempotency key.
    pub(crate) once: Option<IdempotentRequest>,
}

impl Actor {
    /// The idempotency key of the request.
    pub(crate) fn key(&self) -> Option<&str> {
        self.once.as_ref().map(IdempotentRequest::key)
    }
}

impl RequestActor {
    /// The actor of a change before the caller is known.
    pub(crate) fn unauthenticated(request: &str, address: Option<String>, trace: TraceContext) -> Self {
        let nobody = || "nobody".to_owned();
        Self(Actor {
            actor: nobody(),
            source: nobody(),
            request: request.to_owned(),
            address,
            trace,
            once: None,
        })
    }
}

/// The actor as a request extension.
#[derive(Debug, Clone)]
pub(crate) struct RequestActor(pub(crate) Actor);

/// State of authentication.
#[derive(Debug)]
pub(crate) struct Identities {
    /// The environment whose keys are accepted.
    pub(crate) environment: String,
    tokens: Option<Tokens>,
    cache: Cache,
    rates: Rates,
    /// Lookups of unknown tokens, by client address.
    unauthenticated: Rates,
}

/// Lookups of unknown tokens per second and client address; the burst is twice as many.
const UNAUTHENTICATED_PER_SECOND: u32 = 50;

impl Identities {
    /// An empty cache. `rate` is the limit of requests per second and key; 0 for no limit.
    pub(crate) fn new(environment: String, rate: u32, tokens: Option<Tokens>) -> Self {
        let unauthenticated = Rates::new(UNAUTHENTICATED_PER_SECOND);
        Self { environment, tokens, cache: Cache::default(), rates: Rates::new(rate), unauthenticated }
    }

    /// Counts a request with an unknown token from this address.
    ///
    /// # Errors
    /// Too many such requests.
    pub(crate) fn admit_unauthenticated(&self, address: Option<IpAddr>) -> Result<(), ApiError> {
        let taken = self.unauthenticated.take(&address_of(address), monotonic());
        taken.map_err(|_too_many| ApiError::TooManyUnauthenticated { after_seconds: 1 })
    }

    /// Takes the count back: the token was valid.
    pub(crate) fn admit_authenticated(&self, address: Option<IpAddr>) {
        self.unauthenticated.give_back(&address_of(address));
    }

    /// Removes a key that this process revoked from the cache.
    pub(crate) fn forget(&self, prefix: &str) {
        self.cache.forget(|known| known.api_key.as_deref() == Some(prefix));
    }

    /// Removes a session that this process ended from the cache.
    pub(crate) fn forget_session(&self, session: SessionId) {
        self.cache.forget(|known| known.session == Some(session));
    }

    /// Removes all identities of a tenant from the cache.
    pub(crate) fn forget_tenant(&self, tenant: TenantId) {
        self.cache.forget(|known| known.tenant == tenant);
    }

    /// Removes all identities of a user from the cache.
    pub(crate) fn forget_user(&self, user: UserId) {
        self.cache.forget(|known| known.user == Some(user));
    }
}

/// Authenticates a request by its headers, and applies the rate limit. A request with a session
/// cookie must come from our own pages, and must show the CSRF token if it changes something.
/// Unknown tokens from one `address` cost a bounded number of database lookups.
///
/// # Errors
/// Unknown caller, too many requests, a cross-site request, or the database fails.
pub(crate) async fn authenticate(
    state: &ApiState,
    method: &Method,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Identity, ApiError> {
    let identities = &state.identities;
    let (shown, fingerprint) = shown(identities, headers)?;
    if let Shown::Session(_) = &shown {
        origin::check_page(headers)?;
    }
    if let Some(why) = identities.cache.refusal(&fingerprint, monotonic()) {
        return Err(ApiError::Unauthenticated(Some(why)));
    }
    let is_stranger = !identities.cache.was_believed(&fingerprint);
    if is_stranger {
        identities.admit_unauthenticated(address)?;
    }
    let identity = match recognise(state, &shown, fingerprint).await {
        Ok(identity) => identity,
        Err(ApiError::Unauthenticated(Some(why))) => {
            identities.cache.refuse(fingerprint, why.clone(), monotonic());
            return Err(ApiError::Unauthenticated(Some(why)));
        }
        Err(error) => return Err(error),
    };
    if is_stranger {
        identities.admit_authenticated(address);
    }
    if let Shown::Session(token) = &shown {
        sessions::check_csrf(token, method, headers)?;
    }
    identities.rates.take(identity.budget(), monotonic())?;
    Ok(identity)
}

/// Groups client addresses: IPv6 addresses by the part that a provider assigns to one customer.
fn address_of(address: Option<IpAddr>) -> String {
    match address {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("{:x}", u128::from(address) >> 64),
        None => "unknown".to_owned(),
    }
}

/// Reports whether the sender of these headers still has a permission in the tenant, for long
/// streams. While the database cannot be reached, the old answer holds.
pub(crate) async fn may_still(
    state: &ApiState,
    headers: &HeaderMap,
    tenant: TenantId,
    permission: Permission,
) -> bool {
    let recognised = async {
        let (shown, fingerprint) = shown(&state.identities, headers)?;
        recognise(state, &shown, fingerprint).await
    };
    match recognised.await {
        Ok(identity) => identity.tenant() == tenant && identity.known().permissions.has(permission),
        Err(ApiError::Unauthenticated(_)) => false,
        Err(_) => true,
    }
}

async fn recognise(
    state: &ApiState,
    shown: &Shown<'_>,
    fingerprint: Fingerprint,
) -> Result<Identity, ApiError> {
    if !state.is_open() {
        return Err(ApiError::Starting);
    }
    let (identities, now) = (&state.identities, monotonic());
    if let Some(identity) = identities.cache.get(&fingerprint, now) {
        return Ok(identity);
    }
    let identity = match shown {
        Shown::Key(key) => look_up(state, key).await?,
        Shown::Token(tokens, token) => jwt::look_up(state, tokens, *token).await?,
        Shown::Session(token) => sessions::look_up(state, token).await?,
    };
    // Valid from before the lookup, so that a slow answer does not extend the cache time.
    identities.cache.put(fingerprint, identity.clone(), now);
    Ok(identity)
}

/// Permission to read the database without a tenant. Only this module creates it.
#[derive(Debug)]
pub(crate) struct BeforeTenant(());

/// Credentials of a request, by their form.
enum Shown<'a> {
    Key(ApiKey),
    Token(&'a Tokens, UnverifiedJwt<'a>),
    Session(SessionToken),
}

/// The credentials in the headers, and their cache key: a hash of the whole, so that a wrong secret
/// with a known name does not match. The header `Authorization` takes precedence over a cookie.
fn shown<'a>(
    identities: &'a Identities,
    headers: &'a HeaderMap,
) -> Result<(Shown<'a>, Fingerprint), ApiError> {
    if !headers.contains_key(AUTHORIZATION)
        && let Some(token) = cookie(headers)?
    {
        // The kind is part of the hash: no other credential can be taken for a session, or a
        // session for another credential.
        let print = fingerprint(&format!("cookie {}", token.text().expose_secret()));
        return Ok((Shown::Session(token), print));
    }
    let token = bearer::token(headers)?;
    // No part of a key contains a dot.
    if let (Some(tokens), Some(jwt)) = (&identities.tokens, UnverifiedJwt::new(token)) {
        return Ok((Shown::Token(tokens, jwt), fingerprint(token)));
    }
    let key = ApiKey::parse(token).map_err(|error| ApiError::Unauthenticated(Some(error.to_string())))?;
    if key.environment() != identities.environment {
        let (theirs, ours) = (key.environment(), &identities.environment);
        let message = format!(
            "the key is for the environment {theirs:?}, but this API accepts {ours:?} (API_KEY_ENVIRONMENT)"
        );
        return Err(ApiError::Unauthenticated(Some(message)));
    }
    Ok((Shown::Key(key), fingerprint(token)))
}

async fn look_up(state: &ApiState, key: &ApiKey) -> Result<Identity, ApiError> {
    let this = BeforeTenant(());
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
            tracing::warn!(error = error.with_causes(), "could not record the last use of a key");
        }
    }
    Ok(Identity::of_key(found, key.prefix(), permissions))
}

fn judge(found: &FoundKey, key: &ApiKey, ring: Option<&SecretKeys>) -> Result<Permissions, ApiError> {
    found.judge(key, ring).map_err(|refusal| {
        let told = match &refusal {
            KeyRefusal::Unverifiable(_) => {
                tracing::error!(api_key = key.prefix(), error = %refusal, "key could not be verified");
                KeyRefusal::Wrong.to_string()
            }
            KeyRefusal::Wrong | KeyRefusal::Revoked | KeyRefusal::Expired | KeyRefusal::Inactive => {
                refusal.to_string()
            }
        };
        ApiError::Unauthenticated(Some(told))
    })
}
