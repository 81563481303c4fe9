//! Reads a value past its errors of shape, so that a request with several reports all of them. Pure.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::field_error::{FieldError, read};

const MOST_ERRORS: usize = 20;

#[derive(Debug)]
pub(crate) struct Reading<T> {
    /// Without the fields that have an error; `None` if a required one lacks a substitute.
    pub(crate) value: Option<T>,
    pub(crate) mistakes: Vec<FieldError>,
    pub(crate) replaced: Replaced,
}

/// Fields that were left out or substituted: further errors in them are not the client's.
#[derive(Debug, Default)]
pub(crate) struct Replaced(BTreeSet<String>);

impl Replaced {
    /// `field` is a path with dots.
    pub(crate) fn concerns(&self, field: &str) -> bool {
        let top = field.split(['.', '[']).next().unwrap_or(field);
        let with = |name: &str| self.0.contains(name);
        // The kind decides the form of the configuration.
        with(top)
            || (top == "schedule_config" && with("job_type"))
            || (top == "handler_config" && with("handler_type"))
    }

    pub(crate) fn concerns_pointer(&self, at: &str, pointer: &str) -> bool {
        let below = pointer.strip_prefix(at).unwrap_or(pointer).trim_start_matches('/');
        self.concerns(below.split('/').next().unwrap_or(below))
    }
}

/// `substitutes` has sound texts for required fields.
pub(crate) fn read_all<T: DeserializeOwned>(
    mut value: Value,
    at: &str,
    substitutes: &[(&str, &str)],
) -> Reading<T> {
    let (mut mistakes, mut replaced) = (Vec::new(), Replaced::default());
    while mistakes.len() < MOST_ERRORS {
        let mistake = match read(value.clone(), at) {
            Ok(read) => return Reading { value: Some(read), mistakes, replaced },
            Err(mistake) => mistake,
        };
        let below = mistake.pointer.strip_prefix(at).unwrap_or_default();
        let top = below.split('/').nth(1).map(|top| top.replace("~1", "/").replace("~0", "~"));
        let is_repeated = top.as_ref().is_some_and(|top| replaced.0.contains(top));
        if !is_repeated {
            mistakes.push(mistake);
        }
        let (Some(top), Value::Object(fields), false) = (top, &mut value, is_repeated) else { break };
        let was_there = fields.remove(&top).is_some();
        let substitute = substitutes.iter().find(|(field, _)| *field == top);
        if let Some((field, text)) = substitute {
            fields.insert((*field).to_owned(), (*text).into());
        } else if !was_there {
            break;
        }
        replaced.0.insert(top);
    }
    Reading { value: None, mistakes, replaced }
}

#[cfg(test)]
mod tests {
    use sched_wire::JobSpec;
    use serde_json::json;

    use super::*;

    const SUBSTITUTES: [(&str, &str); 2] = [("function", "x"), ("job_type", "manual")];

    fn pointers(value: Value) -> (Vec<String>, bool) {
        let reading: Reading<JobSpec> = read_all(value, "/jobs/0", &SUBSTITUTES);
        let pointers = reading.mistakes.into_iter().map(|mistake| mistake.pointer).collect();
        (pointers, reading.value.is_some())
    }

    #[test]
    fn every_field_with_a_wrong_shape_is_reported() {
        let several = json!({
            "name": "a", "job_type": "hourly", "max_runs": "x", "priorty": 3, "after": ["b"], "timezone": "UTC",
        });
        let (mut found, is_read) = pointers(several);
        found.sort();
        let expected = ["after/0", "function", "job_type", "max_runs", "priorty"];
        assert_eq!((found, is_read), (expected.map(|field| format!("/jobs/0/{field}")).into(), true));
        assert_eq!(pointers(json!({"name": "a", "function": "f", "job_type": "manual"})), (vec![], true));
        assert_eq!(pointers(json!({"function": "f"})), (vec!["/jobs/0/name".to_owned()], false));
        assert_eq!(pointers(json!([])), (vec!["/jobs/0".to_owned()], false));
    }

    #[test]
    fn replaced_fields_hide_what_depends_on_them() {
        let reading: Reading<JobSpec> =
            read_all(json!({"name": "a", "function": "f", "job_type": "x"}), "", &SUBSTITUTES);
        for (field, is_hidden) in [
            ("job_type", true),
            ("schedule_config.expression", true),
            ("timezone", false),
            ("after[0]", false),
        ] {
            assert_eq!(reading.replaced.concerns(field), is_hidden, "{field}");
        }
        assert!(reading.replaced.concerns_pointer("/jobs/0", "/jobs/0/job_type"));
    }
}
