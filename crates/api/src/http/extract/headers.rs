//! Headers that mean something to a trigger or to a change.

use actix_web::HttpRequest;
use actix_web::http::header::{HeaderName, IF_MATCH, IF_NONE_MATCH};
use sched_model::definitions::resources::Expected;

use crate::error::ApiError;

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

/// What a thing must be like to be written over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Whatever it is like, and whether or not there is one.
    None,
    /// There must be one.
    Exists,
    /// There must be none.
    Absent,
    /// There must be one, with this entity tag.
    Tag(String),
}

impl Condition {
    /// Whether a thing with the entity tag `found` (`None` if there is none) is so.
    pub(crate) fn check(&self, kind: &'static str, found: Option<&str>) -> Result<(), ApiError> {
        let message = match (self, found) {
            (Self::None, _) | (Self::Exists, Some(_)) | (Self::Absent, None) => return Ok(()),
            (Self::Tag(tag), Some(found)) if tag == found => return Ok(()),
            (Self::Tag(_), Some(found)) => {
                return Err(ApiError::OtherTag { kind, found: found.to_owned() });
            }
            (Self::Exists | Self::Tag(_), None) => {
                format!("there is no such {kind}, and If-Match asks for one")
            }
            (Self::Absent, Some(_)) => {
                format!("there is such a {kind} already, and If-None-Match asks for none")
            }
        };
        Err(ApiError::Precondition(message))
    }
}

/// What `If-Match` and `If-None-Match` ask for.
pub(crate) fn condition(request: &HttpRequest) -> Result<Condition, ApiError> {
    let only = |name: HeaderName, label: &'static str| {
        let mut values = request.headers().get_all(name);
        match (values.next(), values.next()) {
            (_, Some(_)) => Err(ApiError::parameter(label, "stands twice")),
            (first, None) => Ok(first.map(|value| value.to_str().unwrap_or_default().trim().to_owned())),
        }
    };
    match (only(IF_MATCH, "If-Match")?, only(IF_NONE_MATCH, "If-None-Match")?) {
        (None, None) => Ok(Condition::None),
        (Some(text), None) if text == "*" => Ok(Condition::Exists),
        (Some(text), None) => {
            let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
            let tag = quoted.filter(|tag| !tag.is_empty() && !tag.contains('"'));
            tag.map(|tag| Condition::Tag(tag.to_owned()))
                .ok_or_else(|| ApiError::parameter("If-Match", "must be one ETag, such as \"7\", or *"))
        }
        (None, Some(text)) if text == "*" => Ok(Condition::Absent),
        (None, Some(_)) => Err(ApiError::parameter("If-None-Match", "must be *")),
        (Some(_), Some(_)) => Err(ApiError::parameter("If-None-Match", "cannot stand beside If-Match")),
    }
}

/// The same of a thing whose entity tag is its version.
pub(crate) fn expected(request: &HttpRequest) -> Result<Expected, ApiError> {
    match condition(request)? {
        Condition::None | Condition::Exists => Ok(Expected::Any),
        Condition::Absent => Ok(Expected::Absent),
        Condition::Tag(tag) => tag.parse().map(Expected::Version).map_err(|_no_version| {
            ApiError::parameter(
                "If-Match",
                "must be the ETag, which is the version in quotes such as \"7\", or *",
            )
        }),
    }
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
        assert!(expected(&[("if-match", "\"x\"")]).is_err());
    }

    #[test]
    fn conditions_are_one_tag_any_or_none() {
        let asked = |name: &'static str, value: &str| {
            condition(&TestRequest::put().insert_header((name, value)).to_http_request())
        };
        assert_eq!(asked("if-match", "\"a1\"").unwrap(), Condition::Tag("a1".into()));
        assert_eq!(asked("if-match", "*").unwrap(), Condition::Exists);
        assert_eq!(asked("if-none-match", "*").unwrap(), Condition::Absent);
        assert_eq!(condition(&TestRequest::put().to_http_request()).unwrap(), Condition::None);
        for (name, bad) in [
            ("if-match", "a1"),
            ("if-match", "W/\"1\""),
            ("if-match", "\"1\", \"2\""),
            ("if-match", "\"\""),
            ("if-none-match", "\"1\""),
        ] {
            assert!(asked(name, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_holds_or_says_why_not() {
        use Condition::{Absent, Exists, None as Any, Tag};
        let tag = || Tag("1".into());
        for (condition, found, code) in [
            (Any, None, None),
            (Any, Some("1"), None),
            (Exists, Some("1"), None),
            (Exists, None, Some("precondition_failed")),
            (Absent, None, None),
            (Absent, Some("1"), Some("precondition_failed")),
            (tag(), Some("1"), None),
            (tag(), Some("2"), Some("version_mismatch")),
            (tag(), None, Some("precondition_failed")),
        ] {
            let refused = condition.check("queue", found).err().map(|error| error.kind().1);
            assert_eq!(refused, code, "{condition:?} {found:?}");
        }
    }
}
