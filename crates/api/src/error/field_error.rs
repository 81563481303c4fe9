//! Errors in one field of a request, from domain rules and database refusals. Pure.
//!
//! A JSON pointer into the body names the field, or the plain name of a parameter or header.

use sched_model::domain::FieldError as DomainError;
use sched_model::domain::args_schema::Misfit;
use sched_model::jobs::SaveError;
use sched_wire::{ProblemError, plain_error};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use crate::error::ApiError;
use crate::http::by_name::ByName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Never valid.
    Invalid,
    AlreadyExists,
    /// The only allowed resource of this kind exists.
    SingletonTaken,
    /// The named resource accepts no new references.
    Inactive,
    /// A concurrent request wrote the same resource.
    Concurrent,
    InUse,
    KeyReused,
    LastOwner,
    LastOperator,
    BuiltIn,
    QuotaExceeded,
}

impl Reason {
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::AlreadyExists => "already_exists",
            Self::SingletonTaken => "singleton_taken",
            Self::Inactive => "inactive",
            Self::Concurrent => "concurrent_change",
            Self::InUse => "in_use",
            Self::KeyReused => "idempotency_key_reused",
            Self::LastOwner => "last_owner",
            Self::LastOperator => "last_operator",
            Self::BuiltIn => "built_in",
            Self::QuotaExceeded => "quota_exceeded",
        }
    }

    /// Reports whether the same request may succeed at another time.
    pub(crate) const fn is_conflict(self) -> bool {
        match self {
            Self::Invalid | Self::KeyReused => false,
            Self::AlreadyExists
            | Self::SingletonTaken
            | Self::Inactive
            | Self::Concurrent
            | Self::InUse
            | Self::LastOwner
            | Self::LastOperator
            | Self::BuiltIn
            | Self::QuotaExceeded => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    pub(crate) reason: Reason,
    pub(crate) pointer: String,
    pub(crate) message: String,
}

impl FieldError {
    pub(crate) fn invalid(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: Reason::Invalid, pointer: pointer.into(), message: message.into() }
    }

    pub(crate) fn of_field(at: &str, error: &DomainError) -> Self {
        // Names of variables are the user's and may contain dots. A list has no keys to point at.
        if let Some(name) = error.field.strip_prefix("headers.") {
            return Self::invalid(format!("{at}/headers/{}", escaped(name)), &*error.message);
        }
        if let Some(name) = error.field.strip_prefix("env.") {
            return Self::invalid(format!("{at}/env/{}", escaped(name)), &*error.message);
        }
        if let Some(name) = error.field.strip_prefix("env_allow.") {
            return Self::invalid(format!("{at}/env_allow"), format!("{name} {}", error.message));
        }
        let mut pointer = at.to_owned();
        for part in error.field.split(['.', '[']).filter(|part| !part.is_empty()) {
            pointer.push('/');
            pointer.push_str(&escaped(part.trim_end_matches(']')));
        }
        Self::invalid(pointer, &*error.message)
    }

    pub(crate) fn to_wire(&self) -> ProblemError {
        ProblemError { pointer: self.pointer.clone(), message: self.message.clone() }
    }
}

pub(crate) fn read<T: DeserializeOwned>(value: Value, at: &str) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(ByName(value)).map_err(|error| {
        let mut pointer = format!("{at}{}", pointer_of(error.path()));
        let plain = plain_error(&error.into_inner().to_string());
        if let Some(field) = plain.missing {
            pointer.push('/');
            pointer.push_str(&escaped(&field));
        }
        FieldError::invalid(pointer, plain.message)
    })
}

pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn pointer_of(path: &Path) -> String {
    let segments = path.iter().map(|segment| match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", escaped(key)),
        Segment::Enum { .. } | Segment::Unknown => String::new(),
    });
    segments.collect()
}

pub(crate) fn save_refused(error: SaveError, at: &str) -> ApiError {
    let (reason, field, message) = match error {
        SaveError::Missing { field, kind, name } => {
            (Reason::Invalid, field, format!("there is no {kind} named {name:?}"))
        }
        SaveError::Inactive { field, name } => {
            (Reason::Inactive, field, format!("{name:?} is inactive and accepts no new jobs"))
        }
        SaveError::Exists(name) => {
            (Reason::AlreadyExists, "name", format!("a job named {name:?} already exists"))
        }
        SaveError::BuiltIn(name) => {
            (Reason::Invalid, "name", format!("the function {name:?} is built in and cannot be changed"))
        }
        SaveError::TypeInactive(job_type) => (
            Reason::Inactive,
            "job_type",
            format!("{job_type} is disabled in this installation and accepts no new jobs"),
        ),
        SaveError::Quota { limit, used } => {
            let message = format!(
                "the tenant may have {limit} jobs and has {used}; delete some, or request a larger quota from the operator of the installation"
            );
            return ApiError::Refused(vec![FieldError {
                reason: Reason::QuotaExceeded,
                pointer: String::new(),
                message,
            }]);
        }
        SaveError::SingletonTaken { scope, function } => (
            Reason::SingletonTaken,
            "function",
            format!("another job of scope {scope} runs {function:?}; only one may exist"),
        ),
        SaveError::Args(misfits) => return args_refused(misfits, at),
        SaveError::Schedule(error) => {
            let error = DomainError { field: error.field().to_owned(), message: error.message().to_owned() };
            return ApiError::Refused(vec![FieldError::of_field(at, &error)]);
        }
        SaveError::Dependency { entry, source, .. } => {
            let pointer = format!("{at}/after/{entry}/job");
            return ApiError::Refused(vec![FieldError::invalid(pointer, source.to_string())]);
        }
        SaveError::Database(error) => return error.into(),
    };
    ApiError::Refused(vec![FieldError { reason, pointer: format!("{at}/{field}"), message }])
}

pub(crate) fn args_refused(misfits: Vec<Misfit>, at: &str) -> ApiError {
    ApiError::Refused(misfits.into_iter().map(|misfit| unfit(misfit, at)).collect())
}

pub(crate) fn unfit(misfit: Misfit, at: &str) -> FieldError {
    FieldError::invalid(format!("{at}/task_args{}", misfit.pointer), misfit.message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn domain_fields_become_pointers() {
        for (field, pointer) in [
            ("", "/jobs/3"),
            ("timezone", "/jobs/3/timezone"),
            ("schedule_config.expression", "/jobs/3/schedule_config/expression"),
            ("args[12]", "/jobs/3/args/12"),
            ("env.A.B/C", "/jobs/3/env/A.B~1C"),
            ("env_allow.PGPASSWORD", "/jobs/3/env_allow"),
        ] {
            let error = DomainError { field: field.to_owned(), message: "is wrong".to_owned() };
            assert_eq!(FieldError::of_field("/jobs/3", &error).pointer, pointer);
        }
    }

    #[test]
    fn shape_error_has_a_pointer() {
        let table = [
            (json!({"name": 5, "function": "f", "job_type": "manual"}), "/name"),
            (
                json!({"name": "a", "function": "f", "job_type": "manual", "retry_policy": {"max_attempts": "x"}}),
                "/retry_policy/max_attempts",
            ),
            (json!({"name": "a", "function": "f", "job_type": "manual", "colour": 1}), "/colour"),
            (json!({"name": "a", "function": "f"}), "/job_type"),
            (json!([]), ""),
            (json!(["a", null, "f"]), ""),
            (
                json!({"name": "a", "function": "f", "job_type": "manual", "retry_policy": [3, 60]}),
                "/retry_policy",
            ),
            (
                json!({"name": "a", "function": "f", "job_type": "manual", "after": [{"job": "b"}, ["c"]]}),
                "/after/1",
            ),
        ];
        for (value, pointer) in table {
            let mistake = read::<sched_wire::JobSpec>(value.clone(), "/jobs/0").unwrap_err();
            assert_eq!(mistake.pointer, format!("/jobs/0{pointer}"), "{value}: {}", mistake.message);
        }
    }
}
