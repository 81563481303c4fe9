//! Headers that mean something to a trigger or to a change.

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};
use sched_model::db::resources::Expected;
use sched_wire::IDEMPOTENCY_KEY;

use crate::error::ApiError;

/// Longest key taken; two UUIDs fit four times.
const LONGEST_KEY: usize = 255;

/// The key under which sending a trigger again makes no second dispatch.
pub(crate) fn idempotency_key(request: &HttpRequest) -> Result<Option<String>, ApiError> {
    let wrong = |message: String| Err(ApiError::parameter(IDEMPOTENCY_KEY, message));
    let mut values = request.headers().get_all(IDEMPOTENCY_KEY);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return wrong("stands twice".to_owned());
    }
    match value.to_str() {
        Ok(key) if (1..=LONGEST_KEY).contains(&key.len()) => Ok(Some(key.to_owned())),
        Ok(_) | Err(_) => wrong(format!("must be 1 to {LONGEST_KEY} characters of visible ASCII")),
    }
}

/// The version that a thing must have, by `If-Match`; `None` for any.
pub(crate) fn if_match(request: &HttpRequest) -> Result<Option<i64>, ApiError> {
    let mut values = request.headers().get_all(IF_MATCH);
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match (quoted.map(str::parse::<i64>), values.next()) {
        (Some(Ok(version)), None) => Ok(Some(version)),
        (None, None) if text == "*" => Ok(None),
        _ => {
            let message = "must be the ETag that was answered, a version in quotes such as \"7\", or *";
            Err(ApiError::parameter("If-Match", message))
        }
    }
}

/// The state in which a thing that is written under its name must be, by `If-Match` and `If-None-Match`.
pub(crate) fn expected(request: &HttpRequest) -> Result<Expected, ApiError> {
    let mut values = request.headers().get_all(IF_NONE_MATCH);
    let absent = match (values.next().map(HeaderValue::as_bytes), values.next()) {
        (None, _) => false,
        (Some(b"*"), None) => true,
        _ => return Err(ApiError::parameter("If-None-Match", "must be *: only if there is none")),
    };
    match if_match(request)? {
        Some(_) if absent => {
            Err(ApiError::parameter("If-None-Match", "cannot be asked for together with If-Match"))
        }
        Some(version) => Ok(Expected::Version(version)),
        None if absent => Ok(Expected::Absent),
        None => Ok(Expected::Any),
    }
}

/// The W3C trace context of the request, if it is a sound one; a broken one is to be ignored.
pub(crate) fn traceparent(request: &HttpRequest) -> Option<String> {
    let text = request.headers().get("traceparent")?.to_str().ok()?;
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    let is_sound = matches!(parts.as_slice(), [version, trace, span, flags]
        if *version != "ff" && [version.len(), trace.len(), span.len(), flags.len()] == [2, 32, 16, 2]);
    (is_sound && parts.iter().all(|part| is_hex(part))).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn a_key_is_short_visible_and_given_once() {
        let key = |value: &str| {
            let request = TestRequest::post().insert_header((IDEMPOTENCY_KEY, value)).to_http_request();
            idempotency_key(&request)
        };
        assert_eq!(key("a-1").unwrap().as_deref(), Some("a-1"));
        assert!(key("").is_err());
        assert!(key(&"x".repeat(256)).is_err());
        let twice =
            TestRequest::post().append_header((IDEMPOTENCY_KEY, "a")).append_header((IDEMPOTENCY_KEY, "b"));
        assert!(idempotency_key(&twice.to_http_request()).is_err());
        assert_eq!(idempotency_key(&TestRequest::post().to_http_request()).unwrap(), None);
    }

    #[test]
    fn a_version_is_asked_for_by_its_tag() {
        let version =
            |value: &str| if_match(&TestRequest::post().insert_header((IF_MATCH, value)).to_http_request());
        assert_eq!(version("\"7\"").unwrap(), Some(7));
        assert_eq!(version("*").unwrap(), None);
        assert_eq!(if_match(&TestRequest::post().to_http_request()).unwrap(), None);
        for bad in ["7", "\"x\"", "W/\"7\"", "", "\"7\", \"8\""] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_thing_may_be_asked_to_be_new_or_as_it_was() {
        let expected = |headers: &[(&'static str, &str)]| {
            let request = headers.iter().fold(TestRequest::put(), |request, one| request.insert_header(*one));
            expected(&request.to_http_request())
        };
        assert_eq!(expected(&[]).unwrap(), Expected::Any);
        assert_eq!(expected(&[("if-match", "\"7\"")]).unwrap(), Expected::Version(7));
        assert_eq!(expected(&[("if-none-match", "*")]).unwrap(), Expected::Absent);
        assert!(expected(&[("if-none-match", "\"7\"")]).is_err());
        assert!(expected(&[("if-none-match", "*"), ("if-match", "\"7\"")]).is_err());
    }

    #[test]
    fn only_a_sound_trace_context_is_handed_on() {
        let sound = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for (value, expected) in [
            (sound, Some(sound)),
            ("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", None),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0af7-b7ad6b7169203331-01", None),
            ("", None),
        ] {
            let request = TestRequest::post().insert_header(("traceparent", value)).to_http_request();
            assert_eq!(traceparent(&request).as_deref(), expected);
        }
    }
}
