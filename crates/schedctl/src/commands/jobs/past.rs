//! A note about new one-off jobs in the past, probably a mistake. Pure.

use chrono::{DateTime, Utc};
use sched_model::domain::timetable::misfire::DEFAULT_GRACE;
use sched_wire::MisfirePolicy;
use serde_json::{Map, Value};

use crate::output::time;

pub(super) fn note(
    config: &Map<String, Value>,
    policy: MisfirePolicy,
    grace: Option<i32>,
    now: DateTime<Utc>,
) -> Option<String> {
    let at = DateTime::parse_from_rfc3339(config.get("run_at")?.as_str()?).ok()?.to_utc();
    let late = (now - at).num_seconds();
    if at >= now {
        return None;
    }
    let default = i64::try_from(DEFAULT_GRACE.as_secs()).unwrap_or(i64::MAX);
    let becomes = match policy {
        MisfirePolicy::FireOnce | MisfirePolicy::FireAll => {
            format!("the job fires at once (misfire_policy {policy})")
        }
        MisfirePolicy::Skip if late <= grace.map_or(default, i64::from) => {
            "the job fires at once, as it is within misfire_grace_seconds".to_owned()
        }
        MisfirePolicy::Skip => "the fire is skipped and recorded (misfire_policy skip)".to_owned(),
    };
    Some(format!("{} is in the past; {becomes}", time(at)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_becomes_of_an_instant_in_the_past_is_told_by_its_policy() {
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        let note = |config: Value, policy, grace| note(config.as_object().unwrap(), policy, grace, now);
        let at = |text: &str| json!({"run_at": text});
        let once = MisfirePolicy::FireOnce;
        let past = at("2026-11-21T12:00:00+01:00");
        assert_eq!(
            note(past.clone(), once, None).as_deref(),
            Some("2026-11-21T11:00:00Z is in the past; the job fires at once (misfire_policy fire_once)")
        );
        assert!(note(past.clone(), MisfirePolicy::Skip, None).unwrap().contains("is skipped and recorded"));
        assert!(note(past, MisfirePolicy::Skip, Some(3600)).unwrap().contains("fires at once"));
        assert!(
            note(at("2026-11-21T11:59:30Z"), MisfirePolicy::Skip, None).unwrap().contains("fires at once")
        );
        for config in [at("2026-11-21T12:00:00Z"), at("soon"), json!({"expression": "@daily"}), json!({})] {
            assert_eq!(note(config.clone(), once, None), None, "{config}");
        }
    }
}
