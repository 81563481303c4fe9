//! Converts calendars between wire and model. Pure.
//!
//! On the wire the fields of a definition are beside the name. The model reads them as one object;
//! its errors point at the fields.

use sched_model::definitions::calendars::{CalendarRecord, CalendarSettings};
use sched_model::domain::FieldError as DomainError;
use sched_model::domain::timetable::{Calendar, ScheduleError};
use sched_wire as wire;
use serde_json::Value;

use super::spec::{LONGEST_DESCRIPTION, name_mistake};
use crate::error::ApiError;
use crate::error::field_error::{FieldError, read};

const DEFINITION: &str = "definition";

pub(crate) fn read_calendar(value: Value, at: &str) -> Result<CalendarSettings, Vec<FieldError>> {
    let mut spec: wire::CalendarSpec = read(value, at).map_err(|mistake| vec![mistake])?;
    let (name, description) = (std::mem::take(&mut spec.name), spec.description.take().unwrap_or_default());
    let definition = Value::Object(spec.into_definition());
    let mut mistakes: Vec<FieldError> = name_mistake(at, "name", &name).into_iter().collect();
    if description.chars().count() > LONGEST_DESCRIPTION {
        let message = format!("must be no longer than {LONGEST_DESCRIPTION} characters");
        mistakes.push(FieldError::invalid(format!("{at}/description"), message));
    }
    mistakes.extend(compile(&definition, at).err());
    if mistakes.is_empty() { Ok(CalendarSettings { name, description, definition }) } else { Err(mistakes) }
}

pub(crate) fn compile(definition: &Value, at: &str) -> Result<Calendar, FieldError> {
    Calendar::parse(definition).map_err(|error| of_definition(&error, at))
}

fn of_definition(error: &ScheduleError, at: &str) -> FieldError {
    let field = error.field().strip_prefix(DEFINITION).unwrap_or(error.field());
    FieldError::of_field(at, &DomainError { field: field.to_owned(), message: error.message().to_owned() })
}

pub(crate) fn spec(calendar: CalendarRecord) -> Result<wire::CalendarSpec, ApiError> {
    let mut fields = crate::convert::response::object(calendar.definition);
    fields.insert("name".to_owned(), calendar.name.into());
    if !calendar.description.is_empty() {
        fields.insert("description".to_owned(), calendar.description.into());
    }
    serde_json::from_value(Value::Object(fields)).map_err(ApiError::Unwritten)
}

pub(crate) fn show(calendar: CalendarRecord) -> wire::Calendar {
    wire::Calendar {
        id: calendar.id,
        name: calendar.name,
        description: calendar.description,
        version: calendar.version,
        created_at: calendar.created_at,
        created_by: calendar.created_src,
        updated_at: calendar.updated_at,
        updated_by: calendar.updated_src,
        definition: crate::convert::response::object(calendar.definition),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(value: Value) -> Vec<String> {
        let mistakes = read_calendar(value, "/calendars/2").unwrap_err();
        mistakes.into_iter().map(|mistake| mistake.pointer).collect()
    }

    #[test]
    fn definition_fields_are_stored_as_one_object() {
        let value = json!({"name": "c", "weekly": ["SAT", "SUN"], "timezone": "Europe/Berlin"});
        let settings = read_calendar(value, "").unwrap();
        assert_eq!(
            settings,
            CalendarSettings {
                name: "c".into(),
                description: String::new(),
                definition: json!({"weekly": ["SAT", "SUN"], "timezone": "Europe/Berlin"}),
            }
        );
    }

    #[test]
    fn definition_errors_point_at_their_fields() {
        for (value, pointer) in [
            (json!({"name": "C d", "weekly": ["SAT"]}), "/name"),
            (json!({"name": "c", "weekly": ["SAT"], "description": "x".repeat(2001)}), "/description"),
            (json!({"name": "c", "date": ["2026-12-24"]}), "/date"),
            (
                json!({"name": "c", "weekly": ["SAT", {"days": ["MON"], "from": "2 pm", "until": "16:00"}]}),
                "/weekly/1/from",
            ),
            (json!({"name": "c", "dates": ["2026-02-30"]}), "/dates/0"),
            (json!({"name": "c", "timezone": "Mars"}), "/timezone"),
        ] {
            assert_eq!(pointers(value), [format!("/calendars/2{pointer}")]);
        }
        assert_eq!(pointers(json!([])), ["/calendars/2"]);
        let both = pointers(json!({"name": "C", "timezone": "Mars"}));
        assert_eq!(both, ["/calendars/2/name", "/calendars/2/timezone"]);
    }
}
