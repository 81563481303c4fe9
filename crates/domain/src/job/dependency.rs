//! Dependencies: a job that runs after other jobs have ended.
//!
//! Settings and their validation. [`follow`](fn@follow) decides which ends start a run,
//! [`find_cycle`] finds cycles of jobs. Only the database knows whether the jobs exist. Pure.

mod cycle;
mod follow;

pub use sched_vocabulary::dependency::{AfterCondition, AfterMode};
use serde::{Deserialize, Serialize};

use crate::FieldError;
use crate::name::check_name;

pub use self::cycle::find_cycle;
pub use self::follow::{Edge, End, Run, follow};

pub const MAX_AFTER: usize = 20;

/// Most jobs that run after one job, so that its end stays one short transaction.
pub const MAX_FOLLOWERS: i64 = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct After {
    pub job: String,
    pub on: AfterCondition,
}

#[must_use]
pub fn mistakes(name: &str, after: &[After], mode: AfterMode) -> Vec<FieldError> {
    let mut found = Vec::new();
    let mut wrong = |field: String, message: String| found.push(FieldError { field, message });
    if after.len() > MAX_AFTER {
        wrong("after".into(), format!("names {} jobs; at most {MAX_AFTER} are allowed", after.len()));
    }
    for (index, entry) in after.iter().enumerate() {
        let field = format!("after.{index}.job");
        if let Err(message) = check_name(&entry.job, 200) {
            wrong(field, message);
        } else if entry.job == name {
            wrong(field, "names the job itself".into());
        } else if after.iter().take(index).any(|earlier| earlier.job == entry.job) {
            wrong(field, format!("names {:?} again", entry.job));
        }
    }
    if after.is_empty() && mode != AfterMode::default() {
        wrong("after_mode".into(), "has no meaning without after; name a job or leave it out".into());
    }
    found
}

#[cfg(test)]
mod tests {
    use sched_vocabulary::run_state::DispatchStatus;

    use super::*;

    fn after(names: &[&str]) -> Vec<After> {
        names.iter().map(|name| After { job: (*name).to_owned(), on: AfterCondition::Success }).collect()
    }

    #[test]
    fn cancelled_and_open_states_meet_no_condition() {
        use {AfterCondition as C, DispatchStatus as S};
        let met = |status: S| {
            C::ALL
                .iter()
                .filter(|on| on.is_met_by(status))
                .map(|on| on.as_str())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let table: Vec<(&str, String)> =
            S::ALL.iter().map(|status| (status.as_str(), met(*status))).collect();
        let expected = [
            ("PENDING", ""),
            ("IN_PROGRESS", ""),
            ("COMPLETED", "success completion"),
            ("FAILED", "failure completion"),
            ("TIMEOUT", "failure completion"),
            ("CANCELLED", ""),
            ("DEAD_LETTER", "failure completion"),
        ];
        assert_eq!(table, expected.map(|(status, met)| (status, met.to_owned())));
    }

    #[test]
    fn every_mistake_has_a_field() {
        let fields = |after: &[After], mode| -> Vec<String> {
            mistakes("me", after, mode).into_iter().map(|error| error.field).collect()
        };
        assert!(fields(&after(&["a", "b"]), AfterMode::Any).is_empty());
        assert!(fields(&[], AfterMode::All).is_empty());
        assert_eq!(fields(&[], AfterMode::Any), ["after_mode"]);
        let several = after(&["a", "A!", "me", "a"]);
        assert_eq!(fields(&several, AfterMode::All), ["after.1.job", "after.2.job", "after.3.job"]);
        let names: Vec<String> = (0..=MAX_AFTER).map(|number| format!("job-{number}")).collect();
        let many = after(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(fields(&many, AfterMode::All), ["after"]);
        assert!(fields(&many[..MAX_AFTER], AfterMode::All).is_empty());
    }
}
