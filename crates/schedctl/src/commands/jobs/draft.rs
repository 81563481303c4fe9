//! A definition to create: the fields of a file, overridden by flags.
//!
//! Unknown fields and words are rejected before a request is sent; the API validates values.

use std::path::Path;

use anyhow::anyhow;
use sched_runtime::exit::ExitError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::api::ApiError;
use crate::failure::usage;
use crate::manifest::Single;

#[derive(Debug, Default)]
pub(crate) struct Draft {
    fields: Map<String, Value>,
    file: Single,
}

impl Draft {
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, ExitError> {
        let Some(path) = file else { return Ok(Self::default()) };
        let (file, fields) = Single::read(path)?;
        Ok(Self { fields, file })
    }

    pub(crate) fn set(&mut self, field: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.file.overrule(field);
            self.fields.insert(field.to_owned(), value.into());
        }
    }

    /// Keeps the other members of the object.
    pub(crate) fn set_in(&mut self, field: &str, inner: &str, value: Option<impl Into<Value>>) {
        let Some(value) = value else { return };
        let outer = self.fields.entry(field).or_insert(Value::Null);
        if outer.is_null() {
            *outer = Value::Object(Map::new());
        }
        if let Value::Object(fields) = outer {
            fields.insert(inner.to_owned(), value.into());
        }
    }

    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }

    pub(crate) fn set_default(&mut self, field: &str, value: &str) {
        self.fields.entry(field).or_insert_with(|| value.into());
    }

    /// Reports every missing, unknown or mistyped field with its position.
    pub(crate) fn done<T: DeserializeOwned>(self, kind: &str) -> Result<(T, Single), ExitError> {
        let lists = ["jobs", "task_functions"];
        if let Some(list) = lists.into_iter().find(|list| self.fields.contains_key(*list)) {
            return Err(usage(anyhow!(
                "the file has the list {list:?}, as for `schedctl jobs apply`; this command needs the fields of one {kind}"
            )));
        }
        let headline = format!("this is not a valid {kind}, and nothing was sent");
        let made = self.file.shape(self.fields, &headline)?;
        Ok((made, self.file))
    }
}

pub(crate) fn placed(error: ApiError, file: &Single) -> ExitError {
    match error {
        ApiError::Refused(problem) if problem.errors.iter().any(|error| !error.pointer.is_empty()) => {
            file.explain(&problem).into()
        }
        error => error.into(),
    }
}

pub(crate) fn object(text: &str) -> Result<Value, String> {
    match serde_json::from_str(text) {
        Ok(Value::Object(fields)) => Ok(Value::Object(fields)),
        Ok(_) => Err("must be a JSON object such as '{\"region\": \"north\"}'".to_owned()),
        Err(error) => Err(format!("is not JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use sched_runtime::exit::USAGE;
    use sched_wire::JobSpec;
    use serde_json::json;

    use super::*;

    fn draft(fields: &Value) -> Draft {
        Draft { fields: fields.as_object().unwrap().clone(), file: Single::default() }
    }

    #[test]
    fn flags_stand_over_the_file_and_the_rest_of_it_stays() {
        let mut draft = draft(&json!({
            "name": "a", "function": "f", "job_type": "manual", "queue": "io", "retry_policy": {"max_attempts": 2, "backoff_seconds": 7},
        }));
        draft.set("name", Some("b"));
        draft.set("queue", None::<&str>);
        draft.set_in("retry_policy", "max_attempts", Some(5));
        draft.set_default("job_type", "cron");
        let (spec, _): (JobSpec, _) = draft.done("job").unwrap();
        let policy = spec.retry_policy.unwrap();
        assert_eq!((spec.name.as_str(), spec.queue.as_deref()), ("b", Some("io")));
        assert_eq!((policy.max_attempts, policy.backoff_seconds), (5, 7));
    }

    #[test]
    fn a_flag_stands_over_a_file_that_says_that_there_is_none() {
        let mut draft =
            draft(&json!({"name": "a", "function": "f", "job_type": "manual", "retry_policy": null}));
        draft.set_in("retry_policy", "max_attempts", Some(5));
        assert_eq!(draft.done::<JobSpec>("job").unwrap().0.retry_policy.unwrap().max_attempts, 5);
    }

    #[test]
    fn what_makes_no_such_thing_is_wrong_usage() {
        for (fields, said) in [
            (json!({"name": "a", "job_type": "manual"}), "function: is missing"),
            (
                json!({"name": "a", "function": "f", "job_type": "manual", "colour": 1}),
                "unknown field `colour`",
            ),
            (json!({"jobs": []}), "as for `schedctl jobs apply`"),
        ] {
            let error = draft(&fields).done::<JobSpec>("job").unwrap_err();
            assert_eq!(error.code(), USAGE);
            assert!(error.describe().contains(said), "{}", error.describe());
        }
        assert!(object("[1]").is_err() && object("{").is_err() && object("{}").is_ok());
    }
}
