//! `templates`. A value on the command line is parsed by the type of its parameter, so the template
//! is read first.

use anyhow::anyhow;
use clap::{Args, Subcommand};
use sched_runtime::exit::{self, ExitError};
use sched_wire::{InstantiateRequest, Job, JobSpec, PageQuery, ParameterSpec, ParameterType, Template};
use serde_json::{Map, Value};

use crate::commands::jobs::LIST as JOBS;
use crate::commands::{Session, print_more};
use crate::failure::{CommandResult, usage};
use crate::output::{Column, or_dash, print_notice, time};
use crate::values::{at_least_one, whole};

#[derive(Debug, Subcommand)]
pub(crate) enum TemplatesCommand {
    /// List templates by name
    List {
        /// Maximum number of templates to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one template with its parameters
    #[command(visible_alias = "show")]
    Get {
        /// Name of the template
        name: String,
    },
    /// Delete a template; jobs that were created from it stay
    Delete {
        /// Its name
        name: String,
    },
    /// Show the job for a template and values, without creating it
    Render(MakeArgs),
    /// Create a job from a template
    Instantiate {
        #[command(flatten)]
        make: MakeArgs,
        /// Replace the job of that name if it was created from this template
        #[arg(long)]
        replace: bool,
        /// Only if the template has this version; exit code 7 otherwise
        #[arg(long, value_name = "VERSION", value_parser = whole::<i64>)]
        if_version: Option<i64>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct MakeArgs {
    /// Name of the template
    template: String,
    /// Name of the job; default: the name in the template
    #[arg(long = "as", value_name = "NAME")]
    job: Option<String>,
    /// Value of a parameter, such as `region=north`; lists and objects as JSON; may be repeated
    #[arg(long = "set", short, value_name = "PARAMETER=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

const LIST: &[Column<Template>] = &[
    Column::new("NAME", |template| template.name.clone()),
    Column::new("PARAMETERS", |template| or_dash(names(template))),
    Column::new("VERSION", |template| template.version.to_string()),
    Column::new("UPDATED", |template| time(template.updated_at)),
    Column::wide("DESCRIPTION", |template| template.description.clone()),
    Column::wide("ID", |template| template.id.to_string()),
];

const GET: &[Column<Template>] = &[
    Column::new("Name", |template| template.name.clone()),
    Column::new("Description", |template| template.description.clone()),
    Column::new("Parameters", |template| or_dash(declarations(template))),
    Column::new("Job", |template| Value::from(template.job.clone()).to_string()),
    Column::new("Version", |template| template.version.to_string()),
    Column::new("Created", |template| format!("{} by {}", time(template.created_at), template.created_by)),
    Column::new("Updated", |template| format!("{} by {}", time(template.updated_at), template.updated_by)),
    Column::new("Id", |template| template.id.to_string()),
];

const SPEC: &[Column<JobSpec>] = &[
    Column::new("Name", |job| job.name.clone()),
    Column::new("Function", |job| job.function.clone()),
    Column::new("Arguments", |job| Value::from(job.task_args.clone()).to_string()),
    Column::new("Kind", |job| job.job_type.to_string()),
    Column::new("Schedule", |job| Value::from(job.schedule_config.clone()).to_string()),
    Column::new("Time zone", |job| or_dash(job.timezone.as_deref())),
    Column::new("Project", |job| or_dash(job.project.as_deref())),
    Column::new("Queue", |job| or_dash(job.queue.as_deref())),
];

pub(crate) async fn run(command: TemplatesCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    match command {
        TemplatesCommand::List { limit } => {
            let query = |limit, cursor| PageQuery { limit: Some(limit), cursor };
            let templates = api.list(&["templates"], limit, query).await?;
            session.output.page(&templates, LIST, "there are no templates")?;
            print_more(&templates, limit);
        }
        TemplatesCommand::Get { name } => {
            let template: Template = api.get(&["templates", &name], &()).await?;
            session.output.record(&template, GET)?;
        }
        TemplatesCommand::Delete { name } => {
            api.delete(&["templates", &name], &()).await?;
            print_notice(&format!("deleted template {name}"));
        }
        TemplatesCommand::Render(args) => {
            let template: Template = api.get(&["templates", &args.template], &()).await?;
            let request = request(&template, &args, false)?;
            let job: JobSpec = api.post(&["templates", &args.template, "render"], None, &request).await?;
            session.output.record(&job, SPEC)?;
        }
        TemplatesCommand::Instantiate { make, replace, if_version } => {
            let template: Template = api.get(&["templates", &make.template], &()).await?;
            let request = request(&template, &make, replace)?;
            // The values were parsed by the types of this version.
            let tag = format!("\"{}\"", if_version.unwrap_or(template.version));
            let path = ["templates", &make.template, "instantiate"];
            let job: Job = api.post(&path, Some(("If-Match", &tag)), &request).await?;
            session.output.row(&job, JOBS)?;
        }
    }
    Ok(exit::OK)
}

fn request(template: &Template, args: &MakeArgs, replace: bool) -> Result<InstantiateRequest, ExitError> {
    let mut parameters = Map::new();
    for (name, text) in &args.settings {
        let value = value(template.parameters.get(name), name, text)?;
        if parameters.insert(name.clone(), value).is_some() {
            return Err(usage(anyhow!("--set {name} is set twice")));
        }
    }
    Ok(InstantiateRequest { name: args.job.clone(), parameters, replace })
}

/// The API rejects an unknown parameter and lists the known ones.
fn value(parameter: Option<&ParameterSpec>, name: &str, text: &str) -> Result<Value, ExitError> {
    match parameter.map(|parameter| parameter.kind) {
        None | Some(ParameterType::String) => Ok(text.into()),
        Some(
            ParameterType::Integer
            | ParameterType::Number
            | ParameterType::Boolean
            | ParameterType::Array
            | ParameterType::Object,
        ) => serde_json::from_str(text).map_err(|error| {
            usage(anyhow::Error::new(error).context(format!("--set {name}: {text:?} is not JSON")))
        }),
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("must be PARAMETER=VALUE".to_owned()),
    }
}

fn names(template: &Template) -> Option<String> {
    let names: Vec<&str> = template.parameters.keys().map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// As in `region: string, required (where)`.
fn declarations(template: &Template) -> Option<String> {
    let one = |(name, parameter): (&String, &ParameterSpec)| {
        let kind = match parameter.kind {
            ParameterType::String => "string",
            ParameterType::Integer => "integer",
            ParameterType::Number => "number",
            ParameterType::Boolean => "boolean",
            ParameterType::Array => "array",
            ParameterType::Object => "object",
        };
        let need = match &parameter.default {
            Some(default) => format!(", {default} if not given"),
            None if parameter.required == Some(false) => ", optional".to_owned(),
            None => ", required".to_owned(),
        };
        let about = parameter.description.as_ref().map(|text| format!(" ({text})")).unwrap_or_default();
        format!("{name}: {kind}{need}{about}")
    };
    let all: Vec<String> = template.parameters.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use sched_runtime::exit::USAGE;
    use serde_json::json;

    use super::*;

    fn template() -> Template {
        let at = "2026-11-22T00:00:00Z";
        serde_json::from_value(json!({
            "id": uuid::Uuid::nil(), "name": "t", "description": "", "version": 3,
            "parameters": {
                "region": {"type": "string", "required": true, "description": "where"},
                "minute": {"type": "integer", "default": 5, "required": false},
                "tags": {"type": "array", "required": false},
            },
            "job": {}, "created_at": at, "created_by": "x", "updated_at": at, "updated_by": "x",
        }))
        .unwrap()
    }

    fn request_of(settings: &[&str]) -> Result<InstantiateRequest, ExitError> {
        let settings = settings.iter().map(|text| setting(text).unwrap()).collect();
        request(&template(), &MakeArgs { template: "t".into(), job: None, settings }, false)
    }

    #[test]
    fn values_are_read_by_the_types_of_their_parameters() {
        let made = request_of(&["region=7", "minute=7", "tags=[\"a=b\"]", "other=7"]).unwrap();
        let expected = json!({"region": "7", "minute": 7, "tags": ["a=b"], "other": "7"});
        assert_eq!(Value::from(made.parameters), expected);
        for bad in [&["minute=seven"][..], &["tags=a"], &["region=a", "region=b"]] {
            assert_eq!(request_of(bad).unwrap_err().code(), USAGE, "{bad:?}");
        }
        assert!(setting("=x").is_err() && setting("x").is_err());
    }

    #[test]
    fn parameters_are_told_in_a_few_words() {
        assert_eq!(
            declarations(&template()).unwrap(),
            "minute: integer, 5 if not given; region: string, required (where); tags: array, optional"
        );
    }
}
