//! Validation of the settings of a function, without its handler configuration and the schema of its
//! arguments.

use sched_domain::FieldError;
use sched_domain::job::{MAX_TIMEOUT_SECONDS, check_name};
use sched_domain::retry::RetryPolicy;

use super::FunctionSettings;

/// The columns have the same limit.
const LONGEST_NAME: usize = 100;
/// In characters.
const LONGEST_DISPLAY_NAME: usize = 200;
/// In characters.
const LONGEST_DESCRIPTION: usize = 2000;

impl FunctionSettings {
    /// Every mistake; empty for valid settings.
    #[must_use]
    pub fn check(&self) -> Vec<FieldError> {
        let mut found = Vec::new();
        let mut wrong =
            |field: &str, message: String| found.push(FieldError { field: field.to_owned(), message });
        for (field, name) in [("name", &self.name), ("queue", &self.queue)] {
            if let Err(message) = check_name(name, LONGEST_NAME) {
                wrong(field, message);
            }
        }
        if !(1..=LONGEST_DISPLAY_NAME).contains(&self.display_name.chars().count()) {
            wrong("display_name", format!("must be 1 to {LONGEST_DISPLAY_NAME} characters"));
        }
        if self.description.chars().count() > LONGEST_DESCRIPTION {
            wrong("description", format!("must be no longer than {LONGEST_DESCRIPTION} characters"));
        }
        let timeout = self.default_timeout_seconds;
        if !(1..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
            wrong(
                "default_timeout_seconds",
                format!("must be between 1 and {MAX_TIMEOUT_SECONDS}, not {timeout}"),
            );
        }
        for (field, message) in self.retry_policy.iter().flat_map(RetryPolicy::mistakes) {
            wrong(&format!("retry_policy.{field}"), message);
        }
        found
    }
}
