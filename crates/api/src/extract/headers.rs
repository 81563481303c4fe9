//! Headers that mean something to a trigger or to a change of a job.

use actix_web::HttpRequest;
use actix_web::http::header::IF_MATCH;

use crate::error::ApiError;

/// The version that a job must have, by `If-Match`; `None` for any.
pub(crate) fn if_match(request: &HttpRequest) -> Result<Option<i64>, ApiError> {
    let mut values = request.headers().get_all(IF_MATCH);
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match (quoted.map(str::parse::<i64>), values.next()) {
        (Some(Ok(version)), None) => Ok(Some(version)),
        (None, None) if text == "*" => Ok(None),
        _ => {
            let message = "must be the ETag of the job, which is its version in quotes such as \"7\", or *";
            Err(ApiError::parameter("If-Match", message))
        }
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
