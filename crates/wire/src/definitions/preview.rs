//! Previews: the fire times of a schedule, with or without a job.
//!
//! The answer is also the output of `schedctl schedules preview`, so one program can read both.

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::definitions::calendar::CalendarChoice;
use crate::enums::{CalendarRoll, DstGap, DstOverlap, FireNote, JobType};

/// Number of fire times of a preview when the request sets none.
pub const DEFAULT_PREVIEW: usize = 10;
/// Maximum number of fire times of a preview.
pub const MAX_PREVIEW: usize = 1000;

/// A schedule to preview. The fields are those of a [`JobSpec`](crate::JobSpec), and two for the
/// preview.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    /// Kind of schedule.
    pub job_type: JobType,
    /// The schedule, in the form its kind defines; empty for a manual one.
    #[serde(default)]
    pub schedule_config: Map<String, Value>,
    /// IANA zone of wall-clock times; the default of the API when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// Rule for wall-clock times that do not exist; the default of the expression when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<DstGap>,
    /// Rule for wall-clock times that occur twice; the default of the expression when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_overlap: Option<DstOverlap>,
    /// No fire before this instant (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after this instant (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<DateTime<Utc>>,
    /// Calendars, each as a name or as an object with the fields of a calendar.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarChoice>,
    /// Rule for a fire time that a calendar excludes.
    #[serde(default = "crate::definitions::manifest::default_calendar_roll")]
    pub calendar_roll: CalendarRoll,
    /// Name of the planned job; it determines the value of `H` in a cron expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// Fire times after this instant (RFC 3339); the present of the database when absent. It is
    /// also the anchor of an interval without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<DateTime<Utc>>,
    /// Number of fire times, 1 to [`MAX_PREVIEW`]; [`DEFAULT_PREVIEW`] when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub count: Option<usize>,
}

/// Parameters of the preview of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewQuery {
    /// As in [`PreviewRequest`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<DateTime<Utc>>,
    /// As in [`PreviewRequest`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub count: Option<usize>,
}

/// Fire times and description of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The next fire times, earliest first.
    pub fire_times: Vec<FireTime>,
    /// The schedule in one English sentence.
    pub description: String,
    /// Possible surprises; each begins with the field that causes it.
    pub warnings: Vec<String>,
}

/// A fire time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FireTime {
    /// The instant in UTC.
    #[serde(serialize_with = "utc")]
    pub utc: DateTime<Utc>,
    /// The instant on the wall clock of the zone, with its offset.
    #[serde(serialize_with = "local")]
    pub local: DateTime<FixedOffset>,
    /// Effect of a clock change.
    pub note: Option<FireNote>,
    /// Original fire time before a calendar moved it; absent if it was not moved.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "maybe_utc")]
    pub moved_from: Option<DateTime<Utc>>,
    /// Whether the job is paused then, so that the scheduler skips the fire; absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
}

fn utc<S: Serializer>(at: &DateTime<Utc>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&at.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

fn maybe_utc<S: Serializer>(at: &Option<DateTime<Utc>>, to: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => utc(at, to),
        None => to.serialize_none(),
    }
}

/// Writes the offset as numbers even if it is zero: `Z` would mean that no wall clock shows it.
fn local<S: Serializer>(at: &DateTime<FixedOffset>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&at.to_rfc3339_opts(SecondsFormat::AutoSi, false))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fire_times_are_written_in_utc_and_with_the_offset_of_the_zone() {
        let fire = |text: &str| {
            let local = DateTime::parse_from_rfc3339(text).unwrap();
            let note = Some(FireNote::Shifted);
            let fire = FireTime { utc: local.to_utc(), local, note, moved_from: None, is_paused: false };
            let written = serde_json::to_value(fire).unwrap();
            assert_eq!(serde_json::from_value::<FireTime>(written.clone()).unwrap(), fire);
            written
        };
        assert_eq!(
            fire("2026-03-29T03:00:00+02:00"),
            json!({"utc": "2026-03-29T01:00:00Z", "local": "2026-03-29T03:00:00+02:00", "note": "shifted"})
        );
        assert_eq!(fire("2026-03-29T03:00:00Z")["local"], "2026-03-29T03:00:00+00:00");
    }

    #[test]
    fn a_calendar_is_named_or_described() {
        let request: PreviewRequest = serde_json::from_value(
            json!({"job_type": "manual", "calendars": ["holidays", {"weekly": ["SAT"]}]}),
        )
        .unwrap();
        let [named, inline] = request.calendars.as_slice() else { panic!("{:?}", request.calendars) };
        assert_eq!(*named, CalendarChoice::Named("holidays".to_owned()));
        assert!(matches!(inline, CalendarChoice::Inline(fields) if fields.contains_key("weekly")));
        assert_eq!(request.calendar_roll, CalendarRoll::Skip);
    }
}
