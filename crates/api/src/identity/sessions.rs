//! Sessions in requests: the cookie, and the CSRF token.
//!
//! A browser sends a cookie whichever page caused the request. So a request with a cookie must not
//! come from a page of another origin ([`crate::http::origin`]). One that changes something must
//! also show a token that only our own pages can read. The only write is the time of the session's
//! last use.

use actix_web::http::Method;
use actix_web::http::header::{COOKIE, HeaderMap, HeaderValue, InvalidHeaderValue, SET_COOKIE};
use sched_model::Conn;
use sched_model::domain::identity::SessionToken;
use sched_model::identity::sessions::{self, SessionRefusal};
use sched_wire::{CSRF_TOKEN, SESSION_COOKIE};
use secrecy::ExposeSecret as _;

use super::{BeforeTenant, Identity, TenantOfCaller};
use crate::error::ApiError;
use crate::state::ApiState;

/// No script reads the cookie. Browsers send it over TLS (or on this machine) only, to this host
/// only, and not with cross-site subrequests.
const ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Lax";

/// `None` without a cookie.
///
/// # Errors
/// The token is malformed, or there are two cookies. The `__Host-` prefix prevents other hosts from
/// setting one.
pub(crate) fn cookie(headers: &HeaderMap) -> Result<Option<SessionToken>, ApiError> {
    let wrong = |message: String| ApiError::Unauthenticated(Some(message));
    let pairs = headers.get_all(COOKIE).filter_map(|value| value.to_str().ok());
    let pairs = pairs.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut shown = pairs.filter(|(name, _)| *name == SESSION_COOKIE).map(|(_, token)| token);
    match (shown.next(), shown.next()) {
        (None, _) => Ok(None),
        (Some(token), None) => SessionToken::parse(token).map(Some).map_err(|error| wrong(error.to_string())),
        (Some(_), Some(_)) => Err(wrong("the request has two session cookies; send one".to_owned())),
    }
}

pub(crate) fn set_cookie(
    headers: &mut HeaderMap,
    token: &SessionToken,
    seconds: u64,
) -> Result<(), InvalidHeaderValue> {
    let text = token.text().expose_secret();
    let mut value =
        HeaderValue::from_str(&format!("{SESSION_COOKIE}={text}; {ATTRIBUTES}; Max-Age={seconds}"))?;
    value.set_sensitive(true);
    headers.append(SET_COOKIE, value);
    Ok(())
}

pub(crate) fn clear_cookie(headers: &mut HeaderMap) -> Result<(), InvalidHeaderValue> {
    let value = HeaderValue::from_str(&format!("{SESSION_COOKIE}=; {ATTRIBUTES}; Max-Age=0"))?;
    headers.append(SET_COOKIE, value);
    Ok(())
}

pub(super) fn check_csrf(token: &SessionToken, method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    if method.is_safe() {
        return Ok(());
    }
    let mut shown = headers.get_all(CSRF_TOKEN).map(|value| value.to_str().unwrap_or_default());
    match (shown.next(), shown.next()) {
        (Some(shown), None) if token.is_csrf(shown) => Ok(()),
        _ => Err(ApiError::Csrf),
    }
}

pub(super) async fn look_up(state: &ApiState, token: &SessionToken) -> Result<Identity, ApiError> {
    let id = token.id();
    let found = state.recognise(&BeforeTenant(()), "find_session", async |conn: &mut Conn| {
        Ok(sessions::find(conn, id).await?)
    });
    let refused = |refusal: SessionRefusal| ApiError::Unauthenticated(Some(refusal.to_string()));
    let found = found.await?.ok_or_else(|| refused(SessionRefusal::Wrong))?;
    let permissions = found.verify(token, state.ring()).map_err(|refusal| {
        if let SessionRefusal::Unverifiable(error) = &refusal {
            tracing::error!(session.id = %id, error = %error, "session could not be verified");
            return refused(SessionRefusal::Wrong);
        }
        refused(refusal)
    })?;
    if found.is_to_be_touched {
        let idle = state.session_times.idle.as_secs_f64();
        let tenant = TenantOfCaller(found.tenant);
        let touch = state.record(tenant, "touch_session", async |conn: &mut Conn| {
            sessions::touch(conn, found.tenant, id, idle).await
        });
        if let Err(error) = touch.await {
            tracing::warn!(error = error.with_causes(), "could not record the last use of a session");
        }
    }
    Ok(Identity::of_session(found, permissions))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;
    use sched_model::domain::identity::SECRET_BYTES;
    use sched_model::domain::ids::SessionId;

    use super::*;

    fn token() -> SessionToken {
        SessionToken::new(SessionId(uuid::Uuid::from_u128(1)), [1; SECRET_BYTES])
    }

    #[test]
    fn session_cookie_is_read_among_other_cookies() {
        let ours = format!("{SESSION_COOKIE}={}", token().text().expose_secret());
        for (cookies, expected) in [
            (vec![], Ok(false)),
            (vec!["theme=dark".to_owned()], Ok(false)),
            (vec![ours.clone()], Ok(true)),
            (vec![format!("theme=dark; {ours};a=b")], Ok(true)),
            (vec!["theme=dark".to_owned(), ours.clone()], Ok(true)),
            (vec![format!("{ours}; {ours}")], Err(())),
            (vec![ours.clone(), ours.clone()], Err(())),
            (vec![format!("{SESSION_COOKIE}=x")], Err(())),
            // Browsers enforce the prefix only in its exact case.
            (vec![ours.to_lowercase()], Ok(false)),
        ] {
            let request = cookies
                .iter()
                .fold(TestRequest::get(), |request, value| request.append_header((COOKIE, value.as_str())));
            let found = cookie(request.to_http_request().headers());
            assert_eq!(found.map(|found| found.is_some()).map_err(drop), expected, "{cookies:?}");
        }
    }

    #[test]
    fn changes_need_exactly_one_csrf_token() {
        let right = token().csrf();
        for (method, shown, is_let) in [
            (Method::GET, vec![], true),
            (Method::POST, vec![], false),
            (Method::POST, vec!["x"], false),
            (Method::POST, vec![&*right], true),
            (Method::DELETE, vec![&*right, &*right], false),
        ] {
            let request = shown
                .iter()
                .fold(TestRequest::get(), |request, value| request.append_header((CSRF_TOKEN, *value)));
            let checked = check_csrf(&token(), &method, request.to_http_request().headers());
            assert_eq!(checked.is_ok(), is_let, "{method} {shown:?}");
        }
    }
}
