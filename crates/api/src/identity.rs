//! Who sends a request, and what they may do.
//!
//! Every path of the API is authenticated before it is routed ([`authenticate`], called by [`crate::http::middleware`]); a route then asks
//! for one permission ([`crate::http::route`]), and its handler takes the [`Identity`], which is the only way to a tenant. What a key
//! may do is read from the database and believed for [`cache::FOR`]; nothing is written but when a key was last used. A process
//! that dies has lost nothing but what it believed.

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
use crate::http::idempotency::Once;
use crate::http::origin;
use crate::state::ApiState;

pub(crate) use cache::Cache;
use cache::Fingerprint;
pub(crate) use jwt::Tokens;
pub(crate) use passwords::{Claim, Vain, Verdict, forgive, note_vain, verify};
pub(crate) use rate::Rates;
pub(crate) use sessions::{clear_cookie, cookie, set_cookie};

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
    /// The session that the cookie of the request is of.
    pub(crate) session: Option<SessionId>,
    pub(crate) permissions: Permissions,
    /// Whether scopes take something from what the user or the tenant may.
    pub(crate) is_bounded: bool,
    /// When the key that was shown ends.
    pub(crate) expires_at: Option<DateTime<Utc>>,
    /// Who acts, as the audit log keeps it.
    actor: String,
}

impl Known {
    /// Whether a token says who acts: neither a key of ours nor somebody who has signed in here.
    pub(crate) const fn is_by_token(&self) -> bool {
        self.api_key.is_none() && self.session.is_none()
    }
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
            session: None,
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
            session: None,
            permissions,
            is_bounded,
            expires_at: None,
        }))
    }

    /// The identity of a session that is kept, once it has been judged.
    fn of_session(found: FoundSession, permissions: Permissions) -> Self {
        Self(Arc::new(Known {
            tenant: found.tenant,
            user: Some(found.user),
            actor: format!("{} via session", found.email),
            email: Some(found.email),
            role: Some(found.role),
            api_key: None,
            session: Some(found.id),
            permissions,
            is_bounded: false,
            // Who signed in is there in person: what they make may last.
            expires_at: None,
        }))
    }

    /// The identity of a session that begins, of somebody whose password was right.
    pub(crate) fn of_new_session(
        account: &Account,
        membership: &AccountMembership,
        session: SessionId,
    ) -> Self {
        let standing =
            Standing::Member { role: membership.role, is_system_operator: account.is_system_operator };
        Self(Arc::new(Known {
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

    /// The same, in another session.
    pub(crate) fn with_session(&self, session: SessionId) -> Self {
        let known = &self.0;
        Self(Arc::new(Known {
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

    /// Whether who acts operates the installation.
    pub(crate) fn operates(&self) -> bool {
        self.0.permissions.has(Permission::SystemOperate)
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
    pub(crate) fn signs(
        &self,
        request: &str,
        address: Option<String>,
        trace: TraceContext,
        once: Option<Once>,
    ) -> Signed {
        Signed(By {
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

/// On whose behalf something is changed.
#[derive(Debug, Clone)]
pub(crate) struct By {
    /// Who, for the audit log.
    pub(crate) actor: String,
    /// Who, for the row itself.
    pub(crate) source: String,
    /// The id of the request.
    pub(crate) request: String,
    /// The network address of who sent it.
    pub(crate) address: Option<String>,
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
}

impl Signed {
    /// What signs what is done before it is known who asks.
    pub(crate) fn nobody(request: &str, address: Option<String>, trace: TraceContext) -> Self {
        let nobody = || "nobody".to_owned();
        Self(By {
            actor: nobody(),
            source: nobody(),
            request: request.to_owned(),
            address,
            trace,
            once: None,
        })
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
    /// Looks into the database for who is not known, by address.
    strangers: Rates,
}

/// How many tokens a second that nobody was seen with before are looked up for one address; twice as many at once.
const STRANGERS_A_SECOND: u32 = 50;

impl Identities {
    /// Nobody is known yet. `rate` is how many requests a second one key may send; 0 for any number.
    pub(crate) fn new(environment: String, rate: u32, tokens: Option<Tokens>) -> Self {
        let strangers = Rates::new(STRANGERS_A_SECOND);
        Self { environment, tokens, cache: Cache::default(), rates: Rates::new(rate), strangers }
    }

    /// Counts a request of somebody at this address who is not known yet.
    ///
    /// # Errors
    /// Too many have been sent.
    pub(crate) fn admit_stranger(&self, address: Option<IpAddr>) -> Result<(), ApiError> {
        let taken = self.strangers.take(&address_of(address), monotonic());
        taken.map_err(|_too_many| ApiError::TooManyStrangers { after_seconds: 1 })
    }

    /// Takes that back, since they turned out to be somebody.
    pub(crate) fn know_stranger(&self, address: Option<IpAddr>) {
        self.strangers.give_back(&address_of(address));
    }

    /// Believes a key no longer that was revoked here.
    pub(crate) fn forget(&self, prefix: &str) {
        self.cache.forget(|known| known.api_key.as_deref() == Some(prefix));
    }

    /// Believes a session no longer that was ended here.
    pub(crate) fn forget_session(&self, session: SessionId) {
        self.cache.forget(|known| known.session == Some(session));
    }

    /// Looks anew at all that is shown for a tenant.
    pub(crate) fn forget_tenant(&self, tenant: TenantId) {
        self.cache.forget(|known| known.tenant == tenant);
    }

    /// Looks anew at all that a user shows.
    pub(crate) fn forget_user(&self, user: UserId) {
        self.cache.forget(|known| known.user == Some(user));
    }
}

/// Finds out who sends a request with these headers, and whether they may send one more now. With the cookie of a session it must come
/// from a page of ours, and what changes something must show it. Who sends tokens from `address` that nobody has costs a bounded number of
/// looks into the database.
///
/// # Errors
/// Nobody that is known, too many requests, a page of somebody else's, or the database cannot be asked.
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
        identities.admit_stranger(address)?;
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
        identities.know_stranger(address);
    }
    if let Shown::Session(token) = &shown {
        sessions::check_csrf(token, method, headers)?;
    }
    identities.rates.take(identity.budget(), monotonic())?;
    Ok(identity)
}

/// What callers from an address are counted by: of IPv6 the part that one customer of a provider has.
fn address_of(address: Option<IpAddr>) -> String {
    match address {
        Some(IpAddr::V4(address)) => address.to_string(),
        Some(IpAddr::V6(address)) => format!("{:x}", u128::from(address) >> 64),
        None => "unknown".to_owned(),
    }
}

/// Whether who sent a request with these headers may still do this in the tenant, for answers that go on for long. While the database
/// cannot be asked, nothing changes.
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
    // Believed from before the look, so that a slow answer is not believed longer.
    identities.cache.put(fingerprint, identity.clone(), now);
    Ok(identity)
}

/// What it takes to look into the database without a tenant; only made here.
#[derive(Debug)]
pub(crate) struct Recognising(());

/// What was shown, by its form.
enum Shown<'a> {
    Key(ApiKey),
    Token(&'a Tokens, UnverifiedJwt<'a>),
    Session(SessionToken),
}

/// What the headers show, and by what it is remembered: a hash of the whole, so that a wrong secret under a known name is no hit. The header
/// `Authorization` counts before a cookie.
fn shown<'a>(
    identities: &'a Identities,
    headers: &'a HeaderMap,
) -> Result<(Shown<'a>, Fingerprint), ApiError> {
    if !headers.contains_key(AUTHORIZATION)
        && let Some(token) = cookie(headers)?
    {
        // Said of what kind it is: nothing else may be taken for a session, or a session for something else.
        let print = fingerprint(&format!("cookie {}", token.text().expose_secret()));
        return Ok((Shown::Session(token), print));
    }
    let token = bearer::token(headers)?;
    // No part of a key holds a dot.
    if let (Some(tokens), Some(jwt)) = (&identities.tokens, UnverifiedJwt::new(token)) {
        return Ok((Shown::Token(tokens, jwt), fingerprint(token)));
    }
    let key = ApiKey::parse(token).map_err(|error| ApiError::Unauthenticated(Some(error.to_string())))?;
    if key.environment() != identities.environment {
        let (theirs, ours) = (key.environment(), &identities.environment);
        let message = format!(
            "the key was made for the environment {theirs:?}, and this is {ours:?} (API_KEY_ENVIRONMENT)"
        );
        return Err(ApiError::Unauthenticated(Some(message)));
    }
    Ok((Shown::Key(key), fingerprint(token)))
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
