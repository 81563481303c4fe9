//! The preconditions of a request: `If-Match` and `If-None-Match`.

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use sched_model::definitions::resources::Expected;

use crate::error::ApiError;

#[derive(Debug, Clone, Default)]
pub(crate) struct Preconditions {
    if_match: Vec<HeaderValue>,
    if_none_match: Vec<HeaderValue>,
}

impl Preconditions {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let all = |name: HeaderName| headers.get_all(name).cloned().collect();
        Self { if_match: all(IF_MATCH), if_none_match: all(IF_NONE_MATCH) }
    }

    /// The version that `If-Match` requires; `None` for any.
    pub(crate) fn version(&self) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.if_match.first() else { return Ok(None) };
        let text = value.to_str().unwrap_or_default().trim();
        let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        match (quoted.map(str::parse::<i64>), self.if_match.get(1)) {
            (Some(Ok(version)), None) => Ok(Some(version)),
            (None, None) if text == "*" => Ok(None),
            _ => {
                let message = "must be the ETag that was answered, a version in quotes such as \"7\", or *";
                Err(ApiError::parameter("If-Match", message))
            }
        }
    }

    pub(crate) fn condition(&self) -> Result<Condition, ApiError> {
        let if_match = only(&self.if_match, "If-Match")?;
        match (if_match, only(&self.if_none_match, "If-None-Match")?) {
            (None, None) => Ok(Condition::None),
            (Some("*"), None) => Ok(Condition::Exists),
            (Some(text), None) => {
                let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                let tag = quoted.filter(|tag| !tag.is_empty() && !tag.contains('"'));
                tag.map(|tag| Condition::Tag(tag.to_owned()))
                    .ok_or_else(|| ApiError::parameter("If-Match", "must be one ETag, such as \"7\", or *"))
            }
            (None, Some("*")) => Ok(Condition::Absent),
            (None, Some(_)) => Err(ApiError::parameter("If-None-Match", "must be *")),
            (Some(_), Some(_)) => Err(ApiError::parameter(
                "If-None-Match",
                "cannot be combined with If-Match; send one of them",
            )),
        }
    }

    /// Like [`Self::condition`], for a resource whose entity tag is its version.
    pub(crate) fn expected(&self) -> Result<Expected, ApiError> {
        match self.condition()? {
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
}

fn only<'a>(values: &'a [HeaderValue], label: &'static str) -> Result<Option<&'a str>, ApiError> {
    match values {
        [] => Ok(None),
        [value] => Ok(Some(value.to_str().unwrap_or_default().trim())),
        _ => Err(ApiError::parameter(label, "is given twice; send it once")),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Any state, including absence.
    None,
    Exists,
    Absent,
    Tag(String),
}

impl Condition {
    pub(crate) fn check(&self, kind: &'static str, found: Option<&str>) -> Result<(), ApiError> {
        let message = match (self, found) {
            (Self::None, _) | (Self::Exists, Some(_)) | (Self::Absent, None) => return Ok(()),
            (Self::Tag(tag), Some(found)) if tag == found => return Ok(()),
            (Self::Tag(_), Some(found)) => {
                return Err(ApiError::OtherTag { kind, found: found.to_owned() });
            }
            (Self::Exists | Self::Tag(_), None) => {
                format!("there is no such {kind}, and If-Match requires one")
            }
            (Self::Absent, Some(_)) => {
                format!("the {kind} exists already, and If-None-Match requires that it does not")
            }
        };
        Err(ApiError::Precondition(message))
    }
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn if_match_takes_a_version_or_any() {
        let if_match =
            |request: TestRequest| Preconditions::of(request.to_http_request().headers()).version();
        let version = |value: &str| if_match(TestRequest::post().insert_header((IF_MATCH, value)));
        assert_eq!(version("\"7\"").unwrap(), Some(7));
        assert_eq!(version("*").unwrap(), None);
        assert_eq!(if_match(TestRequest::post()).unwrap(), None);
        for bad in ["7", "\"x\"", "W/\"7\"", "", "\"7\", \"8\""] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_condition_names_a_version_or_absence() {
        let expected = |headers: &[(&'static str, &str)]| {
            let request = headers.iter().fold(TestRequest::put(), |request, one| request.insert_header(*one));
            Preconditions::of(request.to_http_request().headers()).expected()
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
            Preconditions::of(TestRequest::put().insert_header((name, value)).to_http_request().headers())
                .condition()
        };
        assert_eq!(asked("if-match", "\"a1\"").unwrap(), Condition::Tag("a1".into()));
        assert_eq!(asked("if-match", "*").unwrap(), Condition::Exists);
        assert_eq!(asked("if-none-match", "*").unwrap(), Condition::Absent);
        assert_eq!(Preconditions::default().condition().unwrap(), Condition::None);
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
    fn a_condition_is_checked_against_the_tag() {
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
