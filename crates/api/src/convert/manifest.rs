//! Reads a manifest item by item, to report the errors of all items at once.

use std::collections::HashMap;

use sched_model::definitions::calendars::CalendarSettings;
use sched_model::definitions::functions::FunctionSettings;
use sched_model::definitions::projects::ProjectSettings;
use sched_model::definitions::queues::QueueSettings;
use sched_model::definitions::templates::TemplateSettings;
use sched_model::domain::job::JobSettings;
use sched_model::events::notifications::channels::ChannelSettings;
use sched_model::events::notifications::rules::RuleSettings;
use sched_wire::SecretReference;
use serde_json::Value;

use super::spec::name_mistake;
use super::{calendar, notification, project, queue, spec, template};
use crate::error::field_error::{FieldError, read as read_value};

/// Limit of items of a manifest; it keeps the transaction short.
pub(crate) const MOST_ITEMS: usize = 1000;

/// Limit for channels, and for rules, of a tenant: the leader matches all events of all tenants
/// against all rules.
pub(crate) const MOST_NOTIFICATIONS: usize = 100;

const LISTS: &str = "projects, queues, calendars, task_functions, templates, jobs, notification_channels, notification_rules and \
                     secrets";

#[derive(Debug, Default)]
pub(crate) struct CheckedManifest {
    pub(crate) projects: Vec<(String, ProjectSettings)>,
    pub(crate) queues: Vec<(String, QueueSettings)>,
    pub(crate) calendars: Vec<(String, CalendarSettings)>,
    pub(crate) functions: Vec<(String, FunctionSettings)>,
    pub(crate) templates: Vec<(String, TemplateSettings)>,
    pub(crate) jobs: Vec<(String, JobSettings)>,
    pub(crate) channels: Vec<(String, ChannelSettings)>,
    pub(crate) rules: Vec<(String, RuleSettings)>,
    /// Names of secrets that may be missing.
    pub(crate) secrets: Vec<String>,
    pub(crate) mistakes: Vec<FieldError>,
    /// The names in jobs with mistakes, which are also looked up.
    pub(crate) unsound_jobs: Vec<JobReferences>,
    /// This list and the following ones contain the names of all items, valid or not.
    pub(crate) project_names: Vec<String>,
    pub(crate) queue_names: Vec<String>,
    pub(crate) calendar_names: Vec<String>,
    pub(crate) function_names: Vec<String>,
    pub(crate) job_names: Vec<String>,
    pub(crate) channel_names: Vec<String>,
}

/// The names that a job refers to.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobReferences {
    /// Position of the job.
    pub(crate) at: String,
    pub(crate) function: Option<String>,
    pub(crate) project: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) calendars: Vec<String>,
    pub(crate) after: Vec<String>,
}

impl JobReferences {
    fn of(at: String, job: &Value) -> Self {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let list = |field: &str| job.get(field).and_then(Value::as_array).into_iter().flatten();
        Self {
            at,
            function: text(job.get("function")),
            project: text(job.get("project")),
            queue: text(job.get("queue")),
            calendars: list("calendars").map(|name| text(Some(name)).unwrap_or_default()).collect(),
            after: list("after").map(|after| text(after.get("job")).unwrap_or_default()).collect(),
        }
    }
}

pub(crate) fn read(body: Value, default_timezone: &str) -> CheckedManifest {
    let mut checked = CheckedManifest::default();
    let Value::Object(mut body) = body else {
        checked.mistakes.push(FieldError::invalid("", format!("must be an object with {LISTS}")));
        return checked;
    };
    let projects = take_list(&mut body, "projects", &mut checked.mistakes);
    let queues = take_list(&mut body, "queues", &mut checked.mistakes);
    let calendars = take_list(&mut body, "calendars", &mut checked.mistakes);
    let functions = take_list(&mut body, "task_functions", &mut checked.mistakes);
    let templates = take_list(&mut body, "templates", &mut checked.mistakes);
    let jobs = take_list(&mut body, "jobs", &mut checked.mistakes);
    let channels = take_list(&mut body, "notification_channels", &mut checked.mistakes);
    let rules = take_list(&mut body, "notification_rules", &mut checked.mistakes);
    let secrets = take_list(&mut body, "secrets", &mut checked.mistakes);
    for key in body.keys() {
        let pointer = format!("/{}", crate::error::field_error::escaped(key));
        checked.mistakes.push(FieldError::invalid(pointer, format!("is unknown; allowed are {LISTS}")));
    }
    let lists = [&projects, &queues, &calendars, &functions, &templates, &jobs, &channels, &rules, &secrets];
    let items: usize = lists.iter().map(|list| list.len()).sum();
    if items > MOST_ITEMS {
        let message = format!("has {items} items; apply at most {MOST_ITEMS} at once");
        checked.mistakes.push(FieldError::invalid("", message));
        return checked;
    }
    for (list, items) in [("/notification_channels", &channels), ("/notification_rules", &rules)] {
        if items.len() > MOST_NOTIFICATIONS {
            let message = format!("has {} items; a tenant has at most {MOST_NOTIFICATIONS}", items.len());
            checked.mistakes.push(FieldError::invalid(list, message));
            return checked;
        }
    }
    checked.mistakes.extend(repeated("/projects", &projects));
    checked.mistakes.extend(repeated("/queues", &queues));
    checked.mistakes.extend(repeated("/calendars", &calendars));
    checked.mistakes.extend(repeated("/task_functions", &functions));
    checked.mistakes.extend(repeated("/templates", &templates));
    checked.mistakes.extend(repeated("/jobs", &jobs));
    checked.mistakes.extend(repeated("/notification_channels", &channels));
    checked.mistakes.extend(repeated("/notification_rules", &rules));
    checked.mistakes.extend(repeated("/secrets", &secrets));
    let names = |items: &[Value]| items.iter().filter_map(name).map(str::to_owned).collect();
    checked.project_names = names(&projects);
    checked.queue_names = names(&queues);
    checked.calendar_names = names(&calendars);
    checked.function_names = names(&functions);
    checked.job_names = names(&jobs);
    checked.channel_names = names(&channels);
    let named = jobs.iter().enumerate().map(|(index, job)| JobReferences::of(format!("/jobs/{index}"), job));
    let mut named: Vec<JobReferences> = named.collect();
    let mistakes = &mut checked.mistakes;
    checked.projects = sound("/projects", projects, mistakes, project::read_definition);
    checked.queues = sound("/queues", queues, mistakes, queue::read_definition);
    checked.calendars = sound("/calendars", calendars, mistakes, calendar::read_calendar);
    checked.functions = sound("/task_functions", functions, mistakes, spec::function);
    checked.templates = sound("/templates", templates, mistakes, |value, at| {
        template::read_template(value, at, default_timezone)
    });
    checked.jobs = sound("/jobs", jobs, mistakes, |value, at| spec::job(value, at, default_timezone));
    named.retain(|job| checked.jobs.iter().all(|(at, _)| *at != job.at));
    checked.unsound_jobs = named;
    checked.channels = sound("/notification_channels", channels, mistakes, notification::read_channel);
    checked.rules = sound("/notification_rules", rules, mistakes, notification::read_rule);
    let secrets = sound("/secrets", secrets, mistakes, secret_name);
    checked.secrets = secrets.into_iter().map(|(_, name)| name).collect();
    checked
}

fn secret_name(value: Value, at: &str) -> Result<String, Vec<FieldError>> {
    let SecretReference { name } = read_value(value, at).map_err(|mistake| vec![mistake])?;
    match name_mistake(at, "name", &name) {
        Some(mistake) => Err(vec![mistake]),
        None => Ok(name),
    }
}

fn sound<T>(
    list: &str,
    items: Vec<Value>,
    mistakes: &mut Vec<FieldError>,
    read: impl Fn(Value, &str) -> Result<T, Vec<FieldError>>,
) -> Vec<(String, T)> {
    let mut found = Vec::new();
    for (index, value) in items.into_iter().enumerate() {
        let at = format!("{list}/{index}");
        match read(value, &at) {
            Ok(settings) => found.push((at, settings)),
            Err(wrong) => mistakes.extend(wrong),
        }
    }
    found
}

fn take_list(
    body: &mut serde_json::Map<String, Value>,
    key: &str,
    mistakes: &mut Vec<FieldError>,
) -> Vec<Value> {
    match body.remove(key) {
        Some(Value::Array(items)) => items,
        None => Vec::new(),
        Some(_) => {
            mistakes.push(FieldError::invalid(format!("/{key}"), "must be a list"));
            Vec::new()
        }
    }
}

fn name(item: &Value) -> Option<&str> {
    item.get("name").and_then(Value::as_str)
}

/// A reference to a name that occurs twice would be ambiguous.
fn repeated(list: &str, items: &[Value]) -> Vec<FieldError> {
    let mut first: HashMap<&str, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(name) = name(item) else { continue };
        if let Some(earlier) = first.get(name) {
            let message = format!("{name:?} is already at {list}/{earlier}");
            found.push(FieldError::invalid(format!("{list}/{index}/name"), message));
        } else {
            first.insert(name, index);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pointers(body: Value) -> Vec<String> {
        read(body, "UTC").mistakes.into_iter().map(|mistake| mistake.pointer).collect()
    }

    #[test]
    fn errors_of_all_items_are_reported_together() {
        let body = json!({
            "job": [],
            "projects": [{"name": "p", "display_name": ""}, {"name": "P"}],
            "secrets": [{"name": "s"}, {"name": "S"}, "t", {"name": "s"}],
            "queues": [{"name": "q", "max_running": 0, "rate": {"count": 1, "period_seconds": 0}}, {"name": "Q"}, {"name": "r", "is_paused": true}],
            "calendars": [{"name": "c", "dates": ["2026-13-01"]}, {"name": "d", "holidays": []}],
            "task_functions": [{"name": "f", "handler_type": "process", "handler_config": {}}],
            "templates": [{"name": "t", "job": {"function": "{{x}}", "job_type": "manual"}}, {"name": "u", "jobs": {}}],
            "jobs": [
                {"name": "a", "function": "f", "job_type": "manual"},
                {"name": "b", "function": "f", "job_type": "cron"},
                {"name": "a", "function": "f", "job_type": "manual", "timezone": "Mars"},
                {"name": "c", "function": "f", "job_type": "often"},
            ],
        });
        let found = pointers(body);
        for expected in [
            "/job",
            "/projects/0/display_name",
            "/projects/1/name",
            "/secrets/1/name",
            "/secrets/2",
            "/secrets/3/name",
            "/queues/0/max_running",
            "/queues/0/rate/period_seconds",
            "/queues/1/name",
            "/queues/2/is_paused",
            "/calendars/0/dates/0",
            "/calendars/1/holidays",
            "/task_functions/0/handler_config/program",
            "/templates/0/job/function",
            "/templates/1/jobs",
            "/jobs/1/schedule_config/expression",
            "/jobs/2/name",
            "/jobs/2/timezone",
            "/jobs/3/job_type",
        ] {
            assert!(found.iter().any(|pointer| pointer == expected), "{expected} is not in {found:?}");
        }
        assert_eq!(found.len(), 19, "{found:?}");
    }

    #[test]
    fn wrong_body_shape_is_refused() {
        assert_eq!(pointers(json!([])), [""]);
        assert_eq!(pointers(json!({"jobs": {}})), ["/jobs"]);
        assert_eq!(pointers(json!({"jobs": vec![json!({}); MOST_ITEMS + 1]})), [""]);
    }
}
