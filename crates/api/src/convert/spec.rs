//! Requests for jobs and functions: read, completed and checked.
//!
//! All errors are reported together: a field with an error of shape (a wrong type, an unknown field)
//! hides only the other errors of this field.

use chrono::{DateTime, SubsecRound as _, Utc};
use sched_model::definitions::functions::FunctionSettings;
use sched_model::domain::FieldError as DomainError;
use sched_model::domain::args_schema::ArgsSchema;
use sched_model::domain::built_in;
use sched_model::domain::dependency::After;
use sched_model::domain::handler_config::{HttpConfig, NativeConfig, ProcessConfig};
use sched_model::domain::job::{JobSettings, check_name};
use sched_model::domain::retry::RetryPolicy;
use sched_wire::{AfterSpec, FunctionSpec, HandlerType, JobSpec, RetryPolicySpec};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::IntoDomain;
use super::hidden::hidden_values;
use crate::error::all_errors::{Reading, read_all};
use crate::error::field_error::{FieldError, read};

/// Longest name of a function, a calendar or a queue; the columns have the same limit.
pub(crate) const LONGEST_NAME: usize = 100;
/// In characters.
pub(crate) const LONGEST_DESCRIPTION: usize = 2000;

/// Required fields with sound values, for reading past errors.
const REQUIRED_OF_JOB: [(&str, &str); 3] = [("name", "x"), ("function", "x"), ("job_type", "manual")];
const REQUIRED_OF_FUNCTION: [(&str, &str); 2] = [("name", "x"), ("handler_type", "process")];

pub(crate) fn job(value: Value, at: &str, default_timezone: &str) -> Result<JobSettings, Vec<FieldError>> {
    let Reading { value: spec, mut mistakes, replaced } = read_all(value, at, &REQUIRED_OF_JOB);
    let Some(spec) = spec else { return Err(mistakes) };
    let settings = job_settings(spec, default_timezone);
    let of_fields = settings.check();
    mistakes.extend(
        of_fields
            .iter()
            .filter(|error| !replaced.concerns(&error.field))
            .map(|error| FieldError::of_field(at, error)),
    );
    if let Some(queue) = &settings.queue {
        mistakes.extend(name_mistake(at, "queue", queue));
    }
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
}

/// For a manifest. Placeholders stay; a write replaces them.
pub(crate) fn function(value: Value, at: &str) -> Result<FunctionSettings, Vec<FieldError>> {
    let (settings, mistakes) = function_with_hidden(value, at)?;
    if mistakes.is_empty() { Ok(settings) } else { Err(mistakes) }
}

pub(crate) fn sent_back(at: &str, pointer: &str) -> FieldError {
    let message =
        "is the placeholder of a hidden value; send the value, or name a secret: {\"secret\": \"NAME\"}";
    FieldError::invalid(format!("{at}/handler_config{pointer}"), message)
}

/// Like [`function`]; placeholders may refer to stored hidden values.
///
/// # Errors
/// The body does not have the shape of a function. Other errors are returned beside it.
pub(crate) fn function_with_hidden(
    value: Value,
    at: &str,
) -> Result<(FunctionSettings, Vec<FieldError>), Vec<FieldError>> {
    let Reading { value: spec, mistakes: of_shape, replaced } =
        read_all::<FunctionSpec>(value, at, &REQUIRED_OF_FUNCTION);
    let Some(spec) = spec else { return Err(of_shape) };
    let at_config = format!("{at}/handler_config");
    let mut mistakes = handler_mistakes(spec.handler_type, &spec.handler_config, &at_config);
    let settings = function_settings(spec);
    // The rules of a value do not apply to its placeholder.
    let hidden = hidden_values(&settings.handler_config);
    mistakes
        .retain(|mistake| !hidden.iter().any(|pointer| mistake.pointer == format!("{at_config}{pointer}")));
    mistakes.extend(function_mistakes(at, &settings));
    mistakes.retain(|mistake| !replaced.concerns_pointer(at, &mistake.pointer));
    mistakes.extend(of_shape);
    Ok((settings, mistakes))
}

fn handler_mistakes(handler: HandlerType, config: &Map<String, Value>, at: &str) -> Vec<FieldError> {
    match handler {
        HandlerType::Process => config_mistakes(at, config, ProcessConfig::validate),
        HandlerType::Http => config_mistakes(at, config, HttpConfig::validate),
        HandlerType::Native => config_mistakes(at, config, check_native),
    }
}

/// The mistakes of a configuration whose placeholders were replaced.
pub(crate) fn replaced_mistakes(settings: &FunctionSettings, at: &str) -> Vec<FieldError> {
    let handler = settings.handler_type.as_str().parse();
    match (handler, &settings.handler_config) {
        (Ok(handler), Value::Object(config)) => {
            handler_mistakes(handler, config, &format!("{at}/handler_config"))
        }
        _ => Vec::new(),
    }
}

/// Built-in handlers act for all tenants, so they are for built-in functions only.
fn check_native(config: &NativeConfig) -> Result<(), Vec<DomainError>> {
    config.validate()?;
    if built_in::is_reserved(&config.handler) {
        let message = format!("begins with {:?}, which is reserved for built-in functions", built_in::PREFIX);
        return Err(vec![DomainError { field: "handler".to_owned(), message }]);
    }
    Ok(())
}

fn job_settings(spec: JobSpec, default_timezone: &str) -> JobSettings {
    JobSettings {
        project: spec.project_or_default().map(str::to_owned),
        name: spec.name,
        description: spec.description.unwrap_or_default(),
        scope: spec.scope.into_domain(),
        function: spec.function,
        task_args: Value::Object(spec.task_args),
        job_type: spec.job_type.into_domain(),
        schedule_config: Value::Object(spec.schedule_config),
        timezone: spec.timezone.unwrap_or_else(|| default_timezone.to_owned()),
        dst_gap: spec.dst_gap.map(IntoDomain::into_domain),
        dst_overlap: spec.dst_overlap.map(IntoDomain::into_domain),
        start_at: spec.start_at.map(stored),
        end_at: spec.end_at.map(stored),
        max_runs: spec.max_runs,
        jitter_seconds: spec.jitter_seconds,
        calendars: spec.calendars,
        calendar_roll: spec.calendar_roll.into_domain(),
        expected_duration_seconds: spec.expected_duration_seconds,
        after: spec.after.into_iter().map(after).collect(),
        after_mode: spec.after_mode.into_domain(),
        misfire_policy: spec.misfire_policy.into_domain(),
        misfire_grace_seconds: spec.misfire_grace_seconds,
        misfire_cap: spec.misfire_cap,
        max_instances: spec.max_instances,
        overlap_policy: spec.overlap_policy.into_domain(),
        queue: spec.queue,
        priority: spec.priority,
        timeout_seconds: spec.timeout_seconds,
        start_within_seconds: spec.start_within_seconds,
        retry_policy: spec.retry_policy.map(retry_policy),
        is_enabled: spec.is_enabled,
    }
}

fn after(spec: AfterSpec) -> After {
    After { job: spec.job, on: spec.on.into_domain() }
}

/// Truncates to the precision of the database, so that a repeated apply changes nothing.
fn stored(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(6)
}

fn function_settings(spec: FunctionSpec) -> FunctionSettings {
    FunctionSettings {
        display_name: spec.display_name.unwrap_or_else(|| spec.name.clone()),
        name: spec.name,
        description: spec.description.unwrap_or_default(),
        handler_type: spec.handler_type.into_domain(),
        handler_config: Value::Object(spec.handler_config),
        queue: spec.queue,
        default_timeout_seconds: spec.default_timeout_seconds,
        retry_policy: spec.retry_policy.map(retry_policy),
        args_schema: spec.args_schema.map(Value::Object),
    }
}

fn retry_policy(spec: RetryPolicySpec) -> RetryPolicy {
    RetryPolicy {
        max_attempts: spec.max_attempts,
        backoff_seconds: spec.backoff_seconds,
        backoff_type: spec.backoff_type.into_domain(),
        max_backoff_seconds: spec.max_backoff_seconds,
        jitter_percent: spec.jitter_percent,
        non_retryable: spec.non_retryable,
    }
}

fn config_mistakes<C: DeserializeOwned>(
    at: &str,
    config: &Map<String, Value>,
    validate: impl FnOnce(&C) -> Result<(), Vec<DomainError>>,
) -> Vec<FieldError> {
    let config: C = match read(Value::Object(config.clone()), at) {
        Ok(config) => config,
        Err(mistake) => return vec![mistake],
    };
    let wrong = validate(&config).err().unwrap_or_default();
    wrong.iter().map(|error| FieldError::of_field(at, error)).collect()
}

fn function_mistakes(at: &str, settings: &FunctionSettings) -> Vec<FieldError> {
    let mut found: Vec<FieldError> =
        settings.check().iter().map(|error| FieldError::of_field(at, error)).collect();
    let schema = settings.args_schema.as_ref().map(ArgsSchema::parse);
    if let Some(Err(misfit)) = schema {
        found.push(FieldError::invalid(format!("{at}/args_schema{}", misfit.pointer), misfit.message));
    }
    found
}

pub(super) fn name_mistake(at: &str, field: &str, name: &str) -> Option<FieldError> {
    let message = check_name(name, LONGEST_NAME).err()?;
    Some(FieldError::invalid(format!("{at}/{field}"), message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(result: Result<impl Sized, Vec<FieldError>>) -> Vec<String> {
        result.err().unwrap_or_default().into_iter().map(|mistake| mistake.pointer).collect()
    }

    #[test]
    fn a_job_is_completed_with_the_defaults() {
        let settings =
            job(json!({"name": "a", "function": "f", "job_type": "manual"}), "", "Europe/Berlin").unwrap();
        assert_eq!(settings.timezone, "Europe/Berlin");
        assert_eq!(settings.project.as_deref(), Some("default"));
        assert_eq!((settings.task_args, settings.schedule_config), (json!({}), json!({})));
    }

    #[test]
    fn job_errors_have_pointers() {
        let value = json!({
            "name": "A", "function": "f", "job_type": "cron", "schedule_config": {"expression": "61 * * * *"},
            "priority": 101, "queue": "Q", "scope": "system", "project": "x",
            "retry_policy": {"max_attempts": 0}, "after": [{"job": "a"}, {"job": "B"}],
        });
        let found = pointers(job(value, "/jobs/2", "UTC"));
        let expected = [
            "name",
            "project",
            "schedule_config/expression",
            "priority",
            "retry_policy/max_attempts",
            "after/1/job",
            "queue",
        ];
        assert_eq!(found, expected.map(|field| format!("/jobs/2/{field}")));
    }

    #[test]
    fn function_errors_have_pointers() {
        let value = json!({
            "name": "F", "handler_type": "process", "display_name": "", "queue": "",
            "handler_config": {"program": "x", "env": {"PATH": "/"}, "args": ["a", "b\u{0}"]},
            "default_timeout_seconds": 0, "retry_policy": {"max_attempts": 101},
            "args_schema": {"properties": {"a/b": {"type": "text"}}},
        });
        let found = pointers(function(value, ""));
        let expected = [
            "handler_config/args/1",
            "handler_config/env/PATH",
            "name",
            "queue",
            "display_name",
            "default_timeout_seconds",
            "retry_policy/max_attempts",
            "args_schema/properties/a~1b/type",
        ];
        assert_eq!(found, expected.map(|field| format!("/{field}")));
    }

    #[test]
    fn native_functions_have_own_rules() {
        let config = json!({"handler": "no spaces", "grace_seconds": 301});
        let value = json!({"name": "f", "handler_type": "native", "handler_config": config});
        assert_eq!(
            pointers(function(value, "")),
            ["/handler_config/handler", "/handler_config/grace_seconds"]
        );
        let value = json!({"name": "f", "handler_type": "native", "handler_config": {"handler": "a::b"}});
        assert_eq!(function(value, "").unwrap().handler_config["handler"], "a::b");
        let value = json!({"name": "f", "handler_type": "native", "handler_config": {"program": "x"}});
        assert_eq!(pointers(function(value, "")), ["/handler_config/program"]);
    }

    #[test]
    fn built_in_handlers_are_refused() {
        let value =
            json!({"name": "f", "handler_type": "native", "handler_config": {"handler": "sched.backup"}});
        let mistakes = function(value, "").unwrap_err();
        assert_eq!(mistakes[0].pointer, "/handler_config/handler");
        assert!(mistakes[0].message.contains("reserved for built-in functions"), "{}", mistakes[0].message);
    }

    #[test]
    fn unsupported_features_are_refused() {
        let value = json!({"name": "f", "handler_type": "celery", "handler_config": {}});
        let mistakes = function(value, "/task_functions/0").unwrap_err();
        assert_eq!(mistakes[0].pointer, "/task_functions/0/handler_type");
        assert!(mistakes[0].message.contains("process"), "{}", mistakes[0].message);
        let value =
            json!({"name": "f", "handler_type": "process", "handler_config": {"program": "x", "shel": true}});
        assert_eq!(pointers(function(value, "")), ["/handler_config/shel"]);
    }

    #[test]
    fn http_function_errors_have_pointers() {
        let config = json!({"url": "ftp://a.b/", "headers": {"Host": "c"}, "sign": {"secrets": ["x"]}});
        let value = json!({"name": "f", "handler_type": "http", "handler_config": config});
        let expected =
            ["url", "headers/Host", "sign/secrets/0"].map(|field| format!("/handler_config/{field}"));
        assert_eq!(pointers(function(value, "")), expected);
        let value = json!({"name": "f", "handler_type": "http", "handler_config": {"url": "https://a.b/"}});
        assert!(function(value, "").is_ok());
    }
}
