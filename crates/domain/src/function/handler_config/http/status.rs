//! The response statuses that mean success: `200`, `"2xx"`, `"200-204"`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Statuses below 200 are interim responses.
const FINAL: RangeInclusive<u16> = 200..=599;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "StatusSpec", into = "String")]
pub struct StatusRange(RangeInclusive<u16>);

#[derive(Deserialize)]
#[serde(untagged)]
enum StatusSpec {
    Code(u16),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is neither a status (204), a class (\"2xx\") nor a range (\"200-204\") within 200 to 599")]
pub struct NoStatus {
    text: String,
}

impl StatusRange {
    #[must_use]
    pub fn success() -> Self {
        Self(200..=299)
    }

    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0.contains(&status)
    }
}

impl FromStr for StatusRange {
    type Err = NoStatus;

    fn from_str(text: &str) -> Result<Self, NoStatus> {
        let refused = || NoStatus { text: text.to_owned() };
        let number = |text: &str| text.parse::<u16>().ok().filter(|_| text.len() == 3);
        let range = match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(class), _) => {
                let class = class.parse::<u16>().ok().filter(|_| class.len() == 1).ok_or_else(refused)?;
                class * 100..=class * 100 + 99
            }
            (None, Some((low, high))) => {
                number(low).ok_or_else(refused)?..=number(high).ok_or_else(refused)?
            }
            (None, None) => {
                let code = number(text).ok_or_else(refused)?;
                code..=code
            }
        };
        let is_sound =
            FINAL.contains(range.start()) && FINAL.contains(range.end()) && range.start() <= range.end();
        if is_sound { Ok(Self(range)) } else { Err(refused()) }
    }
}

impl TryFrom<StatusSpec> for StatusRange {
    type Error = NoStatus;

    fn try_from(word: StatusSpec) -> Result<Self, NoStatus> {
        match word {
            StatusSpec::Code(code) => code.to_string().parse(),
            StatusSpec::Text(text) => text.parse(),
        }
    }
}

impl From<StatusRange> for String {
    fn from(range: StatusRange) -> Self {
        range.to_string()
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (self.0.start(), self.0.end());
        match (low, high) {
            _ if low == high => write!(f, "{low}"),
            _ if low % 100 == 0 && *high == low + 99 => write!(f, "{}xx", low / 100),
            _ => write!(f, "{low}-{high}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_read_and_written() {
        let read = |json: &str| serde_json::from_str::<StatusRange>(json).map(|range| range.to_string()).ok();
        for (json, expected) in [
            ("204", "204"),
            ("\"204\"", "204"),
            ("\"2xx\"", "2xx"),
            ("\"200-204\"", "200-204"),
            ("\"300-399\"", "3xx"),
        ] {
            assert_eq!(read(json).as_deref(), Some(expected), "{json}");
        }
        for refused in [
            "99",
            "100",
            "600",
            "\"1xx\"",
            "\"6xx\"",
            "\"xx\"",
            "\"20x\"",
            "\"204-200\"",
            "\"\"",
            "true",
            "\"+20\"",
        ] {
            assert_eq!(read(refused), None, "{refused}");
        }
        let range: StatusRange = "200-204".parse().unwrap();
        assert_eq!([199, 200, 204, 205].map(|status| range.contains(status)), [false, true, true, false]);
    }
}
