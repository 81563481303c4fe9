//! Checks of files without an API, by the rules of the API.
//!
//! Jobs, task functions and calendars are checked. Names outside the files, limits of queues,
//! templates and notifications need the API. Pure.

use std::collections::{BTreeSet, HashMap};

use sched_model::definitions::functions::FunctionSettings;
use sched_model::domain::FieldError;
use sched_model::domain::args_schema::{self, ArgsSchema};
use sched_model::domain::dependency::find_cycle;
use sched_model::domain::handler_config::{HttpConfig, NativeConfig, ProcessConfig};
use sched_model::domain::ids::JobId;
use sched_model::domain::job::{JobSettings, check_name};
use sched_model::domain::timetable::Calendar;
use sched_wire::{FunctionSpec, HandlerType, JobSpec, ProblemError, plain_error};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use serde_path_to_error::Segment;
use uuid::Uuid;

use super::{API_URL, Files, HIDDEN};

/// Names that the files use and do not define, by their kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Undefined {
    pub(crate) functions: BTreeSet<String>,
    pub(crate) calendars: BTreeSet<String>,
    pub(crate) jobs: BTreeSet<String>,
}

/// Absent fields get the defaults of the API.
pub(crate) fn settings(spec: &JobSpec, timezone: &str) -> Result<JobSettings, serde_json::Error> {
    let mut value = serde_json::to_value(spec)?;
    if let Some(fields) = value.as_object_mut() {
        for (field, absent) in [
            ("description", json!("")),
            ("project", json!(spec.project_or_default())),
            ("timezone", json!(timezone)),
        ] {
            fields.entry(field).or_insert(absent);
        }
    }
    serde_json::from_value(value)
}

pub(crate) fn calendars<'a>(
    files: &'a Files,
    mistakes: &mut Vec<ProblemError>,
) -> HashMap<&'a str, Calendar> {
    let mut found = HashMap::new();
    for (index, spec) in files.calendars().enumerate() {
        match Calendar::parse(&Value::Object(spec.clone().into_definition())) {
            Ok(calendar) => {
                found.insert(spec.name.as_str(), calendar);
            }
            Err(error) => {
                let field =
                    error.field().trim_start_matches("definition").trim_start_matches('.').replace('.', "/");
                let pointer = format!("/calendars/{index}/{field}").trim_end_matches('/').to_owned();
                mistakes.push(ProblemError { pointer, message: error.message().to_owned() });
            }
        }
    }
    found
}

/// Every mistake that the files alone show.
pub(crate) fn mistakes(files: &Files, timezone: &str) -> Vec<ProblemError> {
    let mut found = Vec::new();
    let _sound = calendars(files, &mut found);
    for (index, function) in files.functions().enumerate() {
        found.extend(of_function(function, &format!("/task_functions/{index}")));
    }
    let schemas: HashMap<&str, Option<Value>> = files
        .functions()
        .map(|function| (function.name.as_str(), function.args_schema.clone().map(Value::Object)))
        .collect();
    for (index, job) in files.jobs().enumerate() {
        let at = format!("/jobs/{index}");
        let settings = match settings(job, timezone) {
            Ok(settings) => settings,
            Err(error) => {
                found.push(ProblemError { pointer: at, message: plain_error(&error.to_string()).message });
                continue;
            }
        };
        found.extend(settings.check().iter().map(|error| below(&at, error)));
        if let Some(message) = settings.queue.as_ref().and_then(|queue| check_name(queue, 100).err()) {
            found.push(ProblemError { pointer: format!("{at}/queue"), message });
        }
        let schema = schemas.get(job.function.as_str()).and_then(Option::as_ref);
        let misfits = args_schema::misfits(schema, &settings.task_args).into_iter();
        found.extend(misfits.map(|misfit| ProblemError {
            pointer: format!("{at}/task_args{}", misfit.pointer),
            message: misfit.message,
        }));
    }
    found.extend(cycle(files));
    found
}

pub(crate) fn undefined(files: &Files) -> Undefined {
    fn without<'a>(
        used: impl Iterator<Item = &'a String>,
        own: impl Iterator<Item = &'a String>,
    ) -> BTreeSet<String> {
        let own: BTreeSet<&String> = own.collect();
        used.filter(|name| !own.contains(name)).cloned().collect()
    }
    Undefined {
        functions: without(files.jobs().map(|job| &job.function), files.functions().map(|own| &own.name)),
        calendars: without(
            files.jobs().flat_map(|job| &job.calendars),
            files.calendars().map(|own| &own.name),
        ),
        jobs: without(
            files.jobs().flat_map(|job| &job.after).map(|after| &after.job),
            files.jobs().map(|own| &own.name),
        ),
    }
}

fn of_function(spec: &FunctionSpec, at: &str) -> Vec<ProblemError> {
    let config = replaced(spec.handler_config.clone());
    let mut found = match spec.handler_type {
        HandlerType::Process => of_config(config, at, ProcessConfig::validate),
        HandlerType::Http => of_config(config, at, HttpConfig::validate),
        HandlerType::Native => of_config(config, at, NativeConfig::validate),
    };
    match function_settings(spec) {
        Ok(settings) => found.extend(settings.check().iter().map(|error| below(at, error))),
        Err(error) => found
            .push(ProblemError { pointer: at.to_owned(), message: plain_error(&error.to_string()).message }),
    }
    let schema = spec.args_schema.clone().map(|schema| ArgsSchema::parse(&Value::Object(schema)));
    if let Some(Err(misfit)) = schema {
        let pointer = format!("{at}/args_schema{}", misfit.pointer);
        found.push(ProblemError { pointer, message: misfit.message });
    }
    found
}

/// The configuration with values in place of what `jobs apply` replaces: the URL of the API, and
/// hidden values, which become names of secrets.
fn replaced(mut config: Map<String, Value>) -> Value {
    if let Some(Value::String(target)) = config.get_mut("url")
        && let Some(rest) = target.strip_prefix(API_URL)
    {
        *target = format!("http://localhost{rest}");
    }
    let mut config = Value::Object(config);
    for field in ["/env", "/headers", "/sign/secrets"] {
        let values: Vec<&mut Value> = match config.pointer_mut(field) {
            Some(Value::Object(values)) => values.values_mut().collect(),
            Some(Value::Array(values)) => values.iter_mut().collect(),
            _ => Vec::new(),
        };
        for value in values.into_iter().filter(|value| value.as_str() == Some(HIDDEN)) {
            *value = json!({"secret": "hidden"});
        }
    }
    config
}

fn function_settings(spec: &FunctionSpec) -> Result<FunctionSettings, serde_json::Error> {
    let mut value = serde_json::to_value(spec)?;
    if let Some(fields) = value.as_object_mut() {
        fields.entry("description").or_insert(json!(""));
        fields.entry("display_name").or_insert(json!(spec.name));
        fields.entry("retry_policy").or_insert(Value::Null);
        fields.entry("args_schema").or_insert(Value::Null);
    }
    serde_json::from_value(value)
}

fn of_config<C: DeserializeOwned>(
    config: Value,
    at: &str,
    validate: impl FnOnce(&C) -> Result<(), Vec<FieldError>>,
) -> Vec<ProblemError> {
    let at = format!("{at}/handler_config");
    match serde_path_to_error::deserialize::<_, C>(config) {
        Ok(config) => {
            validate(&config).err().unwrap_or_default().iter().map(|error| below(&at, error)).collect()
        }
        Err(error) => {
            let steps = error.path().iter().filter_map(|segment| match segment {
                Segment::Seq { index } => Some(index.to_string()),
                Segment::Map { key } => Some(escaped(key)),
                Segment::Enum { .. } | Segment::Unknown => None,
            });
            let mut pointer = steps.fold(at, |pointer, step| format!("{pointer}/{step}"));
            let plain = plain_error(&error.into_inner().to_string());
            if let Some(field) = plain.missing {
                pointer = format!("{pointer}/{field}");
            }
            vec![ProblemError { pointer, message: plain.message }]
        }
    }
}

/// The names of variables and headers may contain dots.
fn below(at: &str, error: &FieldError) -> ProblemError {
    let field = &error.field;
    let pointer = match field.split_once('.') {
        Some((map @ ("headers" | "env" | "env_allow"), name)) => format!("{at}/{map}/{}", escaped(name)),
        _ => {
            let steps = field.split(['.', '[']).filter(|step| !step.is_empty());
            steps.fold(at.to_owned(), |pointer, step| {
                format!("{pointer}/{}", escaped(step.trim_end_matches(']')))
            })
        }
    };
    ProblemError { pointer, message: error.message.clone() }
}

fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn cycle(files: &Files) -> Option<ProblemError> {
    let names: Vec<&str> = files.jobs().map(|job| job.name.as_str()).collect();
    let id = |name: &str| {
        let index = names.iter().position(|own| *own == name)?;
        Some(JobId(Uuid::from_u128(index as u128)))
    };
    let edges: Vec<(JobId, JobId)> = files
        .jobs()
        .flat_map(|job| {
            let earlier = job.after.iter().filter(move |after| after.job != job.name);
            earlier.map(move |after| (&job.name, &after.job))
        })
        .filter_map(|(job, earlier)| Some((id(job)?, id(earlier)?)))
        .collect();
    let starts: Vec<JobId> = names.iter().filter_map(|name| id(name)).collect();
    let cycle = find_cycle(&starts, &edges)?;
    let index = |job: &JobId| usize::try_from(job.0.as_u128()).unwrap_or(usize::MAX);
    let name = |job: &JobId| names.get(index(job)).copied().unwrap_or_default();
    let first = cycle.first()?;
    let way: Vec<&str> = cycle.iter().chain([first]).map(name).collect();
    let message = format!("closes a cycle of jobs that wait for each other: {}", way.join(" → "));
    Some(ProblemError { pointer: format!("/jobs/{}/after", index(first)), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(text: &str) -> Files {
        Files::from_texts(vec![("jobs.yaml".into(), Ok(text.to_owned()))]).unwrap()
    }

    #[test]
    fn mistakes_of_functions_jobs_and_calendars_are_found_offline() {
        let text = "
calendars:
  - {name: c, dates: [2026-02-30]}
task_functions:
  - {name: f, handler_type: process, handler_config: {program: x, env: {PATH: /}}, default_timeout_seconds: 0}
  - {name: g, handler_type: http, handler_config: {}}
  - {name: h, handler_type: process, handler_config: {program: x}, args_schema: {required: [day]}}
jobs:
  - {name: a, function: f, job_type: cron, schedule_config: {expression: '61 * * * *'}, timezone: Mars/Base, priority: 101}
  - {name: b, function: h, job_type: manual, after: [{job: d}], calendars: [other]}
  - {name: d, function: elsewhere, job_type: manual, after: [{job: b}, {job: far}]}
";
        let files = files(text);
        let pointers: Vec<String> =
            mistakes(&files, "UTC").into_iter().map(|mistake| mistake.pointer).collect();
        let expected = [
            "/calendars/0/dates/0",
            "/task_functions/0/handler_config/env/PATH",
            "/task_functions/0/default_timeout_seconds",
            "/task_functions/1/handler_config/url",
            "/jobs/0/schedule_config/expression",
            "/jobs/0/timezone",
            "/jobs/0/priority",
            "/jobs/1/task_args",
            "/jobs/1/after",
        ];
        for pointer in expected {
            assert!(pointers.iter().any(|found| found.starts_with(pointer)), "{pointer} in {pointers:?}");
        }
        assert_eq!(pointers.len(), expected.len(), "{pointers:?}");
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        let expected = Undefined { functions: set("elsewhere"), calendars: set("other"), jobs: set("far") };
        assert_eq!(undefined(&files), expected);
    }

    #[test]
    fn sound_files_have_no_mistakes() {
        let text = "
task_functions:
  - {name: f, handler_type: process, handler_config: {program: x}, retry_policy: {max_attempts: 3}}
  - {name: self, handler_type: http, handler_config: {url: '${SCHED_API_URL}/health'}}
  - {name: hook, handler_type: http, handler_config: {url: 'https://x.example/', headers: {A: '(hidden)'}, sign: {secrets: ['(hidden)']}}}
jobs:
  - {name: a, function: f, job_type: interval, schedule_config: {seconds: 5}}
  - {name: b, function: f, job_type: manual, after: [{job: a}]}
";
        let files = files(text);
        assert_eq!((mistakes(&files, "UTC"), undefined(&files)), (vec![], Undefined::default()));
    }
}
