//! `export`: the definitions of the tenant as a jobs file for `jobs apply`.
//!
//! Default values are left out. Hidden values stay hidden and are reported. `jobs apply` keeps the
//! stored value for a hidden one; on another installation it expects a secret in its place.

use std::fmt;

use clap::Args;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{
    CalendarSpec, ExportQuery, FunctionSpec, JobSpec, Manifest, NotificationChannelSpec,
    NotificationRuleSpec, ProjectDefinition, QueueDefinition, SecretReference, TemplateSpec,
};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::commands::Session;
use crate::failure::{CommandResult, failure};
use crate::manifest::HIDDEN;
use crate::output::print_notice;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Only jobs of this project, and the functions, calendars and queues that they name
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only jobs whose name has this prefix, and the functions, calendars and queues that they name
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Leave out the jobs
    #[arg(long, conflicts_with_all = ["project", "prefix"])]
    without_jobs: bool,
}

pub(crate) async fn run(args: ExportArgs, session: &Session) -> CommandResult {
    let query =
        ExportQuery { project: args.project, name_prefix: args.prefix, without_jobs: args.without_jobs };
    let manifest: Manifest = session.api()?.get(&["export"], &query).await?;
    let hidden = functions_with_hidden(&manifest);
    session.output.document(&File::of(manifest)?)?;
    if !hidden.is_empty() {
        print_notice(&format!(
            "values that may be secrets are {HIDDEN:?}: `jobs apply` keeps them here, and expects a secret in place of each on another \
             installation; functions: {}",
            crate::output::neutral::line(&hidden.join(", "))
        ));
    }
    Ok(exit::OK)
}

fn functions_with_hidden(manifest: &Manifest) -> Vec<String> {
    let functions = manifest.task_functions.iter();
    let hidden = functions.filter(|function| function.handler_config.values().any(holds_hidden));
    hidden.map(|function| function.name.clone()).collect()
}

pub(crate) fn holds_hidden(value: &Value) -> bool {
    match value {
        Value::String(text) => text == HIDDEN,
        Value::Array(items) => items.iter().any(holds_hidden),
        Value::Object(fields) => fields.values().any(holds_hidden),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[derive(Debug)]
struct Fields(Vec<(String, Value)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

#[derive(Debug, Serialize)]
struct File {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    projects: Vec<ProjectDefinition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<SecretReference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queues: Vec<QueueDefinition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    calendars: Vec<CalendarSpec>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    task_functions: Vec<Fields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    templates: Vec<TemplateSpec>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<Fields>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notification_channels: Vec<NotificationChannelSpec>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notification_rules: Vec<NotificationRuleSpec>,
}

impl File {
    fn of(manifest: Manifest) -> Result<Self, ExitError> {
        let functions = manifest.task_functions.iter();
        let jobs = manifest.jobs.iter();
        let needed = ["name", "function", "job_type"];
        Ok(Self {
            task_functions: functions
                .map(|function| {
                    shortened::<FunctionSpec>(function, &["name", "handler_type", "handler_config"])
                })
                .collect::<Result<_, _>>()
                .map_err(failure)?,
            jobs: jobs
                .map(|job| shortened::<JobSpec>(job, &needed))
                .collect::<Result<_, _>>()
                .map_err(failure)?,
            projects: manifest.projects,
            secrets: manifest.secrets,
            queues: manifest.queues,
            calendars: manifest.calendars,
            templates: manifest.templates,
            notification_channels: manifest.notification_channels,
            notification_rules: manifest.notification_rules,
        })
    }
}

/// Removes the fields that equal those of an item with only the `needed` fields.
fn shortened<T: Serialize + DeserializeOwned>(item: &T, needed: &[&str]) -> serde_json::Result<Fields> {
    let fields: Fields = serde_json::from_str(&serde_json::to_string(item)?)?;
    let is_needed = |name: &String| needed.contains(&name.as_str());
    let least: Map<String, Value> = fields.0.iter().filter(|(name, _)| is_needed(name)).cloned().collect();
    let least: T = serde_json::from_value(Value::Object(least))?;
    let least = serde_json::to_value(least)?;
    let says_more = |(name, value): &(String, Value)| is_needed(name) || least.get(name) != Some(value);
    Ok(Fields(fields.0.into_iter().filter(says_more).collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Manifest {
        let manifest = json!({
            "projects": [{"name": "p", "display_name": "Payments"}],
            "secrets": [{"name": "s"}],
            "queues": [{"name": "io", "max_running": 3, "rate": {"count": 10, "period_seconds": 60}}, {"name": "plain"}],
            "calendars": [{"name": "free", "weekly": ["SAT"], "dates": ["2026-12-24"]}],
            "task_functions": [
                {"name": "f", "handler_type": "process", "handler_config": {"program": "yes", "env": {"A": "(hidden)"}}},
                {"name": "g", "handler_type": "http", "handler_config": {"url": "https://example.com", "headers": {"X": {"secret": "s"}}},
                 "default_timeout_seconds": 5, "queue": "io"},
            ],
            "templates": [{"name": "t", "parameters": {"at": {"type": "string"}}, "job": {"function": "f", "job_type": "manual"}}],
            "jobs": [
                {"name": "plain", "function": "f", "job_type": "cron", "schedule_config": {"expression": "0 9 * * *"}, "timezone": "UTC"},
                {"name": "12", "function": "g", "job_type": "manual", "task_args": {"text": "a: b\n# no comment", "on": "no"},
                 "overlap_policy": "queue", "max_instances": 3, "is_enabled": false, "retry_policy": {"max_attempts": 1}},
            ],
            "notification_channels": [{"name": "c", "kind": "webhook", "url": "https://example.com"}],
            "notification_rules": [{"name": "r", "channel": "c", "on": ["failure"]}],
        });
        serde_json::from_value(manifest).unwrap()
    }

    #[test]
    fn what_is_printed_says_what_was_exported_in_as_few_words_as_a_person_would() {
        let text = serde_saphyr::to_string(&File::of(manifest()).unwrap()).unwrap();
        let again: Manifest = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(again, manifest(), "{text}");
        let json = serde_json::to_string(&File::of(manifest()).unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Manifest>(&json).unwrap(), manifest());
        assert!(!text.contains("misfire_policy") && !text.contains("jitter_seconds"), "{text}");
        let at = |field: &str| text.find(field).unwrap_or_else(|| panic!("{field} is not in {text}"));
        assert!(
            at("name: plain") < at("job_type: cron") && at("job_type: cron") < at("expression"),
            "{text}"
        );
    }

    #[test]
    fn what_is_not_shown_is_told_and_names_of_secrets_are_shown() {
        assert_eq!(functions_with_hidden(&manifest()), ["f"]);
    }
}
