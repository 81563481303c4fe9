//! Formats events. Pure.

use sched_wire::Event;
use serde_json::Value;

use crate::output::{Column, or_dash, time};

const JOB_NAME: &str = "job_name";

const LONGEST_TYPE: usize = 28;

/// The details are last, because their length varies.
pub(super) const LIST: &[Column<Event>] = &[
    Column::new("AT", |event| time(event.at)),
    Column::new("TYPE", |event: &Event| event.event_type.clone()).at_least(LONGEST_TYPE),
    Column::new("JOB", job),
    Column::wide("JOB ID", |event| or_dash(event.job_id)),
    Column::wide("RUN", |event| or_dash(event.run_id)),
    Column::wide("ID", |event| event.id.clone()),
    Column::new("DATA", summary),
];

fn job(event: &Event) -> String {
    match event.data.get(JOB_NAME).and_then(Value::as_str) {
        Some(name) => name.to_owned(),
        None => or_dash(event.job_id),
    }
}

fn summary(event: &Event) -> String {
    let one = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(_) if name == JOB_NAME => None,
        Value::String(text) => Some(format!("{name}={text}")),
        other => Some(format!("{name}={other}")),
    };
    event.data.iter().filter_map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::*;

    fn event(job_id: Option<Uuid>, data: Value) -> Event {
        let Value::Object(data) = data else { panic!("an event has members") };
        Event {
            id: "1.2.3.4".into(),
            event_type: "schedule_execution_completed".into(),
            at: chrono::DateTime::UNIX_EPOCH,
            project_id: None,
            job_id,
            run_id: None,
            is_installation: false,
            data,
        }
    }

    #[test]
    fn every_type_has_room_from_the_first_line_on() {
        assert_eq!(sched_wire::EventType::WORDS.iter().map(|word| word.len()).max(), Some(LONGEST_TYPE));
    }

    #[test]
    fn an_event_is_told_with_its_job_and_says_it_once() {
        let named = event(
            Some(Uuid::nil()),
            json!({"job_name": "nightly", "attempt": 2, "error": null, "status": "failed"}),
        );
        assert_eq!((job(&named).as_str(), summary(&named).as_str()), ("nightly", "attempt=2 status=failed"));
        let unnamed = event(Some(Uuid::nil()), json!({"job_name": 7}));
        assert_eq!(job(&unnamed), "00000000-0000-0000-0000-000000000000");
        assert_eq!(summary(&unnamed), "job_name=7");
        assert_eq!(job(&event(None, json!({"name": "reports"}))), "-");
    }
}
