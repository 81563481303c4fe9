//! Previews: what a schedule would do, before any job has it or while one does.
//!
//! The answer is what `schedctl schedules preview` prints, so that one program reads both. Plain data.

use chrono::{DateTime, FixedOffset, SecondsFormat, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::calendar::CalendarChoice;
use crate::enums::{CalendarRoll, DstGap, DstOverlap, FireNote, JobType};

/// Fire times that a preview gives when nobody says how many.
pub const DEFAULT_PREVIEW: usize = 10;
/// Most fire times that a preview gives.
pub const MAX_PREVIEW: usize = 1000;

/// A schedule to preview. The fields are those of a [`JobSpec`](crate::JobSpec), with two for the preview itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewRequest {
    /// Kind of schedule.
    pub job_type: JobType,
    /// The schedule, in the form its kind defines; nothing for a manual one.
    #[serde(default)]
    pub schedule_config: Map<String, Value>,
    /// IANA zone of wall-clock times; the API's default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    /// What becomes of wall-clock times that do not exist; decided by the kind of expression when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<DstGap>,
    /// What becomes of wall-clock times that occur twice; decided by the kind of expression when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_overlap: Option<DstOverlap>,
    /// No fire before this instant (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<DateTime<Utc>>,
    /// No fire at or after this instant (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<DateTime<Utc>>,
    /// Calendars, each by its name or as an object with the fields of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<CalendarChoice>,
    /// What becomes of a fire time that one of them excludes.
    #[serde(default = "crate::manifest::default_calendar_roll")]
    pub calendar_roll: CalendarRoll,
    /// Name of the job that is to have it; decides where `H` in a cron expression falls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// Fire times after this instant (RFC 3339); the present of the database when absent. Also anchors an interval that
    /// names no anchor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<DateTime<Utc>>,
    /// How many fire times, 1 to [`MAX_PREVIEW`]; [`DEFAULT_PREVIEW`] when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    pub count: Option<usize>,
}

/// What a schedule will do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The next fire times, earliest first.
    pub fire_times: Vec<FireTime>,
    /// The schedule as one English sentence.
    pub description: String,
    /// What may surprise, each a fragment that begins with the field it is about.
    pub warnings: Vec<String>,
}

/// One fire time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FireTime {
    /// When it fires.
    #[serde(serialize_with = "utc")]
    pub utc: DateTime<Utc>,
    /// The same as the clocks of the zone show it, with their offset.
    #[serde(serialize_with = "local")]
    pub local: DateTime<FixedOffset>,
    /// What a change of the clocks did to it.
    pub note: Option<FireNote>,
    /// The fire time that a calendar moved here; absent if it was not moved.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "maybe_utc")]
    pub moved_from: Option<DateTime<Utc>>,
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

/// The offset is written as numbers even where it is zero: `Z` would say that no clock shows this.
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
            let fire = FireTime { utc: local.to_utc(), local, note, moved_from: None };
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
