//! The files in `deploy/examples` pass the validation of the API.

use std::collections::HashMap;
use std::path::Path;

use chrono::DateTime;
use sched_model::domain::handler_config::{HttpConfig, NativeConfig, ProcessConfig};
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::JobSettings;
use sched_model::domain::template::Template;
use sched_model::domain::timetable::Calendar;
use sched_wire::HandlerType;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Files;

fn settings(job: &sched_wire::JobSpec) -> JobSettings {
    let mut value = serde_json::to_value(job).unwrap();
    let object = value.as_object_mut().unwrap();
    for (field, default) in [
        ("description", json!("")),
        ("project", json!(job.project_or_default())),
        ("timezone", json!("UTC")),
        ("dst_gap", Value::Null),
        ("dst_overlap", Value::Null),
        ("misfire_grace_seconds", Value::Null),
        ("queue", Value::Null),
        ("priority", Value::Null),
        ("timeout_seconds", Value::Null),
        ("retry_policy", Value::Null),
    ] {
        object.entry(field).or_insert(default);
    }
    serde_json::from_value(value).unwrap()
}

#[test]
fn every_example_is_right_by_the_rules() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/examples"));
    let paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .collect();
    assert!(!paths.is_empty(), "there are examples");
    for path in paths {
        let files = Files::read(std::slice::from_ref(&path)).unwrap();
        let functions = files.manifest_for(&"http://127.0.0.1:18080".parse().unwrap()).task_functions;
        assert!(!functions.is_empty() && files.jobs().count() > 0, "{} describes nothing", path.display());
        for function in &functions {
            let config = Value::from(function.handler_config.clone());
            let read = match function.handler_type {
                HandlerType::Process => ProcessConfig::parse(config).map(drop),
                HandlerType::Native => NativeConfig::parse(config).map(drop),
                HandlerType::Http => HttpConfig::parse(config).map(drop),
            };
            read.unwrap_or_else(|wrong| panic!("{}: {wrong:?}", function.name));
        }
        let parse = |calendar: &sched_wire::CalendarSpec| {
            let definition = Value::Object(calendar.clone().into_definition());
            Calendar::parse(&definition).unwrap_or_else(|wrong| panic!("{}: {wrong}", calendar.name))
        };
        let calendars: HashMap<&str, Calendar> =
            files.calendars().map(|calendar| (calendar.name.as_str(), parse(calendar))).collect();
        for job in files.jobs() {
            let named = job.calendars.iter().map(|name| calendars[name.as_str()].clone());
            let named: Vec<Calendar> = named.collect();
            let settings = settings(job);
            assert_eq!(settings.check(), [], "{}", job.name);
            settings.timetable(TenantId(Uuid::nil()), DateTime::UNIX_EPOCH, &named).unwrap();
            assert!(functions.iter().any(|function| function.name == job.function), "{}", job.name);
        }
    }
}

fn first_block(page: &str) -> Files {
    let yaml = page.split("```yaml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    Files::from_texts(vec![("page.md".into(), Ok(yaml.to_owned()))]).unwrap()
}

#[test]
fn the_channels_and_rules_that_the_documentation_shows_can_be_applied() {
    let manifest = first_block(include_str!("../../../../docs/guide/notifications.md")).manifest();
    assert_eq!((manifest.notification_channels.len(), manifest.notification_rules.len()), (1, 2));
    assert!(
        manifest.notification_rules.iter().all(|rule| rule.channel == manifest.notification_channels[0].name)
    );
}

#[test]
fn the_template_that_the_documentation_shows_makes_a_job() {
    let files = first_block(include_str!("../../../../docs/guide/templates.md"));
    let spec = files.templates().next().unwrap();
    let mut parameters = serde_json::to_value(&spec.parameters).unwrap();
    for (name, one) in &spec.parameters {
        parameters[name]["required"] = json!(one.required.unwrap_or(one.default.is_none()));
    }
    let parameters = serde_json::from_value(parameters).unwrap();
    let template = Template { parameters, job: spec.job.clone() };
    assert_eq!(template.mistakes(), []);
    let Value::Object(given) = json!({"region": "north", "hour": 7}) else { unreachable!() };
    let job: sched_wire::JobSpec = serde_json::from_value(template.fill(&given).unwrap().into()).unwrap();
    assert_eq!(job.name, "report-north");
    assert_eq!(settings(&job).check(), []);
}
