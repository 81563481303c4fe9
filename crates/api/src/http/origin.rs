//! Protects against pages of other sites that use a browser against this API. Pure.
//!
//! Only a program, or a page that knows the key, can set the header `Authorization`. Two rules hold
//! for requests without it:
//!
//! - The request must name a loopback host or one of `api-allowed-hosts`. This rejects a foreign
//!   name that resolves to our address (DNS rebinding).
//! - A request that changes something must not come from a page of another origin.

use std::net::IpAddr;

use actix_web::http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use actix_web::http::{Method, Uri};

use crate::error::ApiError;

pub(crate) fn check(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    allowed: &[String],
) -> Result<(), ApiError> {
    let has_key = headers.contains_key(AUTHORIZATION);
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // A target in absolute form has its own host, which a server must prefer.
    for authority in [Some(host), uri.authority().map(|authority| authority.as_str())].into_iter().flatten() {
        let is_ours = has_key || is_loopback(authority) || is_one_of(authority, allowed);
        if headers.get_all(HOST).count() != 1 || !is_ours {
            return Err(ApiError::WrongHost(authority.to_owned()));
        }
    }
    if has_key || method == Method::GET || method == Method::HEAD || is_same_origin(headers, host) {
        return Ok(());
    }
    Err(ApiError::CrossSite)
}

/// Rejects pages of other origins, also reads: for requests that browsers send with cookies
/// automatically, such as a WebSocket.
pub(crate) fn check_page(headers: &HeaderMap) -> Result<(), ApiError> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if is_same_origin(headers, host) { Ok(()) } else { Err(ApiError::CrossSite) }
}

fn is_loopback(authority: &str) -> bool {
    let Some(host) = host_of(authority) else { return false };
    let name = host.strip_suffix('.').unwrap_or(host);
    if name.eq_ignore_ascii_case("localhost") {
        return true;
    }
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    literal.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn is_one_of(authority: &str, hosts: &[String]) -> bool {
    let name = host_of(authority).map(|host| host.strip_suffix('.').unwrap_or(host));
    name.is_some_and(|name| hosts.iter().any(|host| host.eq_ignore_ascii_case(name)))
}

/// With brackets; `None` when the authority has other parts.
fn host_of(authority: &str) -> Option<&str> {
    let end_of_literal = authority.find(']').map_or(0, |position| position + 1);
    let colon = authority.get(end_of_literal..)?.find(':').map(|position| position + end_of_literal);
    let Some(colon) = colon else { return Some(authority) };
    let (host, port) = authority.split_at_checked(colon)?;
    let port = port.strip_prefix(':')?;
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(host)
}

/// True for no page, or a page of this API. Browsers set these headers; pages cannot.
fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    let is_own_site = |value: &str| value == "same-origin" || value == "none";
    // Pages are served without TLS on this machine only.
    let scheme = if is_loopback(host) { "http://" } else { "https://" };
    let is_own_origin = |value: &str| value.strip_prefix(scheme).is_some_and(|rest| rest == host);
    let all = |name: &str, holds: &dyn Fn(&str) -> bool| {
        headers.get_all(name).all(|value| value.to_str().is_ok_and(holds))
    };
    all("sec-fetch-site", &is_own_site) && all(ORIGIN.as_str(), &is_own_origin)
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn verdict(method: Method, uri: &str, headers: &[(&str, &str)]) -> &'static str {
        let request = headers
            .iter()
            .fold(TestRequest::with_uri(uri).method(method), |request, header| request.append_header(*header))
            .to_http_request();
        match check(request.method(), request.uri(), request.headers(), &["sched.example".to_owned()]) {
            Ok(()) => "ok",
            Err(error) => error.kind().1,
        }
    }

    #[test]
    fn only_loopback_hosts_are_allowed() {
        for (host, expected) in [
            ("127.0.0.1:8080", "ok"),
            ("127.9.9.9", "ok"),
            ("localhost:1", "ok"),
            ("LOCALHOST.", "ok"),
            ("[::1]:8080", "ok"),
            ("[::1]", "ok"),
            ("", "wrong_host"),
            ("evil.example:8080", "wrong_host"),
            ("localhost.evil.example", "wrong_host"),
            ("127.0.0.1.evil.example", "wrong_host"),
            ("evil.example#127.0.0.1", "wrong_host"),
            ("user@127.0.0.1:80", "wrong_host"),
            ("127.0.0.1:80@evil.example", "wrong_host"),
            ("192.168.0.1", "wrong_host"),
            ("0.0.0.0", "wrong_host"),
            ("[::]", "wrong_host"),
            ("2130706433", "wrong_host"),
        ] {
            assert_eq!(verdict(Method::GET, "/health", &[("host", host)]), expected, "{host:?}");
        }
        assert_eq!(verdict(Method::GET, "/", &[]), "wrong_host");
        assert_eq!(verdict(Method::GET, "/", &[("host", "localhost"), ("host", "localhost")]), "wrong_host");
        assert_eq!(verdict(Method::GET, "http://evil.example/", &[("host", "localhost")]), "wrong_host");
    }

    #[test]
    fn allowed_hosts_pass_and_a_key_allows_all() {
        for (host, expected) in
            [("sched.example", "ok"), ("SCHED.example.:443", "ok"), ("x.sched.example", "wrong_host")]
        {
            assert_eq!(verdict(Method::GET, "/", &[("host", host)]), expected, "{host}");
        }
        let with_key =
            |host| [("host", host), ("authorization", "Bearer x"), ("origin", "http://evil.example")];
        assert_eq!(verdict(Method::POST, "/", &with_key("10.1.2.3:8080")), "ok");
        let page = |origin| [("host", "sched.example"), ("origin", origin)];
        assert_eq!(verdict(Method::POST, "/", &page("https://sched.example")), "ok");
        assert_eq!(verdict(Method::POST, "/", &page("http://sched.example")), "cross_site");
    }

    #[test]
    fn cross_origin_writes_are_rejected() {
        for (name, value, expected) in [
            ("accept", "*/*", "ok"),
            ("sec-fetch-site", "same-origin", "ok"),
            ("sec-fetch-site", "none", "ok"),
            ("origin", "http://localhost:8080", "ok"),
            ("sec-fetch-site", "cross-site", "cross_site"),
            ("sec-fetch-site", "same-site", "cross_site"),
            ("origin", "http://evil.example", "cross_site"),
            ("origin", "http://localhost:3000", "cross_site"),
            ("origin", "https://localhost:8080", "cross_site"),
            ("origin", "null", "cross_site"),
        ] {
            let headers = [("host", "localhost:8080"), (name, value)];
            assert_eq!(verdict(Method::POST, "/api/v1/jobs", &headers), expected, "{name}: {value}");
            assert_eq!(verdict(Method::GET, "/api/v1/jobs", &headers), "ok", "{name}: {value}");
        }
    }
}
