//! The text of an instant in an answer: RFC 3339 in UTC, `Z`, and six digits of the second.
//!
//! That is the precision of the database, so no digit is lost. The length is fixed, so texts have
//! the order of their instants, and one instant has one text. Jobs files and previews, which people
//! read beside a wall clock, keep the short form.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serializer;

/// Returns the text of an instant.
#[must_use]
pub fn instant_text(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// An instant, or an optional one.
pub(crate) trait Instant: Copy {
    fn instant(self) -> Option<DateTime<Utc>>;
}

impl Instant for DateTime<Utc> {
    fn instant(self) -> Option<Self> {
        Some(self)
    }
}

impl Instant for Option<DateTime<Utc>> {
    fn instant(self) -> Self {
        self
    }
}

/// For `serialize_with`.
pub(crate) fn utc<S: Serializer>(at: &impl Instant, to: S) -> Result<S::Ok, S::Error> {
    match at.instant() {
        Some(at) => to.serialize_str(&instant_text(at)),
        None => to.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn instants_have_six_digits_and_one_zone() {
        #[derive(Serialize)]
        struct Answer {
            #[serde(serialize_with = "utc")]
            at: DateTime<Utc>,
            #[serde(serialize_with = "utc")]
            maybe: Option<DateTime<Utc>>,
        }
        for (text, written) in [
            ("2026-11-24T14:27:20.47898+00:00", "2026-11-24T14:27:20.478980Z"),
            ("2026-11-24T15:00:00+01:00", "2026-11-24T14:00:00.000000Z"),
        ] {
            let at = text.parse().unwrap();
            let answer = Answer { at, maybe: Some(at) };
            assert_eq!(serde_json::to_value(answer).unwrap(), json!({"at": written, "maybe": written}));
        }
        let none = Answer { at: DateTime::UNIX_EPOCH, maybe: None };
        assert_eq!(serde_json::to_value(none).unwrap()["maybe"], json!(null));
    }
}
