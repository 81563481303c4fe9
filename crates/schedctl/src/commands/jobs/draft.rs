//! A definition to create: the fields of a file, overridden by flags.
//!
//! Both are converted to the request type, so an unknown field or word is rejected before a request
//! is sent. The API validates the values. Reads only the file.

use std::path::Path;

use anyhow::anyhow;
use sched_runtime::exit::ExitError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::api::ApiError;
use crate::failure::usage;
use crate::manifest::Single;

/// An incomplete definition.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    fields: Map<String, Value>,
    file: Single,
}

impl Draft {
    /// Reads the file, if one is given; `-` is standard input.
    ///
    /// # Errors
    /// If the file does not describe one definition.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, ExitError> {
        let Some(path) = file else { return Ok(Self::default()) };
        let (file, fields) = Single::read(path)?;
        Ok(Self { fields, file })
    }

    /// Sets a field if there is a value.
    pub(crate) fn set(&mut self, field: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.file.overrule(field);
            self.fields.insert(field.to_owned(), value.into());
        }
    }

    /// Sets a member of a field that is an object, and keeps its other members.
    pub(crate) fn set_in(&mut self, field: &str, inner: &str, value: Option<impl Into<Value>>) {
        let Some(value) = value else { return };
        let outer = self.fields.entry(field).or_insert(Value::Null);
        // A file may set it to null.
        if outer.is_null() {
            *outer = Value::Object(Map::new());
        }
        // Other types are rejected when the definition is completed.
        if let Value::Object(fields) = outer {
            fields.insert(inner.to_owned(), value.into());
        }
    }

    pub(crate) fn get(&self, field: &str) -> Option<&Value> {
        self.fields.get(field)
    }

    /// Sets a field that is not set yet.
    pub(crate) fn set_default(&mut self, field: &str, value: &str) {
        self.fields.entry(field).or_insert_with(|| value.into());
    }

    /// Completes the definition, of the given `kind`, and returns the positions of its fields.
    ///
    /// # Errors
    /// If fields are missing, unknown or of the wrong type, each with its position.
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

/// Converts an error of the API about a definition; adds positions.
pub(crate) fn placed(error: ApiError, file: &Single) -> ExitError {
    match error {
        ApiError::Refused(problem) if problem.errors.iter().any(|error| !error.pointer.is_empty()) => {
            file.explain(&problem).into()
        }
        error => error.into(),
    }
}

/// Parses a flag with a JSON object.
///
/// # Errors
/// If it is not a JSON object.
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
