//! Authentication: the caller of a request and its permissions.
//!
//! Every path of the API is authenticated before routing ([`authenticate`]). A route then requires
//! one permission ([`crate::http::route`]), and its handler receives the [`Identity`], the only
//! access to a tenant. The permissions of a key are cached for [`cache::FOR`]. The only write is
//! the time of a key's last use. A process that dies loses only its cache.

pub(crate) mod actor;
mod api_keys;
mod bearer;
mod before_tenant;
mod cache;
pub(crate) mod caller;
mod jwt;
mod passwords;
mod rate;
pub(crate) mod registry;
mod sessions;

use std::net::IpAddr;

use actix_web::http::Method;
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use sched_model::domain::identity::jwt::UnverifiedJwt;
use sched_model::domain::identity::{ApiKey, Permission, SessionToken, fingerprint};
use sched_model::domain::ids::TenantId;
use sched_runtime::monotonic_clock::monotonic;
use secrecy::ExposeSecret as _;

use crate::error::ApiError;
use crate::http::origin;
use crate::state::ApiState;

pub(crate) use actor::{Actor, RequestActor, RequestContext};
pub(crate) use before_tenant::{BeforeTenant, TenantOfCaller};
use cache::Fingerprint;
pub(crate) use caller::{Caller, Identity};
pub(crate) use jwt::Tokens;
pub(crate) use passwords::{
    Claim, FailedSignIn, PasswordCheck, record_failed_sign_in, reset_failures, verify,
};
pub(crate) use registry::Identities;
pub(crate) use sessions::{clear_cookie, cookie, set_cookie};

/// Authenticates a request by its headers, and applies the rate limit.
///
/// A request with a session cookie must come from our own pages, and must show the CSRF token if it
/// changes something. Unknown tokens from one `address` cost a bounded number of database lookups.
pub(crate) async fn authenticate(
    state: &ApiState,
    method: &Method,
    headers: &HeaderMap,
    address: Option<IpAddr>,
) -> Result<Identity, ApiError> {
    let identities = &state.identities;
    let (shown, fingerprint) = credentials(identities, headers)?;
    if let Credentials::Session(_) = &shown {
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
    if let Credentials::Session(token) = &shown {
        sessions::check_csrf(token, method, headers)?;
    }
    identities.rates.take(identity.budget(), monotonic())?;
    Ok(identity)
}

/// Checks the permission again, for long streams. While the database cannot be reached, the old
/// answer holds.
pub(crate) async fn may_still(
    state: &ApiState,
    headers: &HeaderMap,
    tenant: TenantId,
    permission: Permission,
) -> bool {
    let recognised = async {
        let (shown, fingerprint) = credentials(&state.identities, headers)?;
        recognise(state, &shown, fingerprint).await
    };
    match recognised.await {
        Ok(identity) => identity.tenant() == tenant && identity.caller().permissions.has(permission),
        Err(ApiError::Unauthenticated(_)) => false,
        Err(_) => true,
    }
}

async fn recognise(
    state: &ApiState,
    shown: &Credentials<'_>,
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
        Credentials::Key(key) => api_keys::look_up(state, key).await?,
        Credentials::Token(tokens, token) => jwt::look_up(state, tokens, *token).await?,
        Credentials::Session(token) => sessions::look_up(state, token).await?,
    };
    // Valid from before the lookup, so that a slow answer does not extend the cache time.
    identities.cache.put(fingerprint, identity.clone(), now);
    Ok(identity)
}

enum Credentials<'a> {
    Key(ApiKey),
    Token(&'a Tokens, UnverifiedJwt<'a>),
    Session(SessionToken),
}

/// The credentials in the headers, and their cache key: a hash of the whole, so that a wrong secret
/// with a known name does not match. `Authorization` takes precedence over a cookie.
fn credentials<'a>(
    identities: &'a Identities,
    headers: &'a HeaderMap,
) -> Result<(Credentials<'a>, Fingerprint), ApiError> {
    if !headers.contains_key(AUTHORIZATION)
        && let Some(token) = cookie(headers)?
    {
        // The kind is part of the hash: no other credential is mistaken for a session, or the
        // reverse.
        let print = fingerprint(&format!("cookie {}", token.text().expose_secret()));
        return Ok((Credentials::Session(token), print));
    }
    let token = bearer::token(headers)?;
    // No part of a key contains a dot.
    if let (Some(tokens), Some(jwt)) = (&identities.tokens, UnverifiedJwt::new(token)) {
        return Ok((Credentials::Token(tokens, jwt), fingerprint(token)));
    }
    let key = ApiKey::parse(token).map_err(|error| ApiError::Unauthenticated(Some(error.to_string())))?;
    if key.environment() != identities.environment {
        let (theirs, ours) = (key.environment(), &identities.environment);
        let message = format!(
            "the key is for the environment {theirs:?}, but this API accepts {ours:?} (API_KEY_ENVIRONMENT)"
        );
        return Err(ApiError::Unauthenticated(Some(message)));
    }
    Ok((Credentials::Key(key), fingerprint(token)))
}
