//! `functions create` and `functions edit`.
//!
//! Neither overwrites unread data: the API rejects the creation of an existing function and the
//! edit of a changed one. Hidden values stay unless replaced; the edited text marks them.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{Function, FunctionSpec, HandlerType};
use serde_json::{Map, Value};

use super::super::queues;
use super::COLUMNS;
use crate::commands::jobs::draft::{Draft, object, placed};
use crate::commands::jobs::export::holds_hidden;
use crate::commands::{Session, jobs::editing, suggestions};
use crate::failure::{CommandResult, failure, usage};
use crate::manifest::{HIDDEN, Single};
use crate::output::print_notice;
use crate::values::{seconds, whole};

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("handling").required(true).multiple(true))]
pub(crate) struct CreateArgs {
    /// Name; default: the name in the file
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// YAML or JSON file with the fields of one task function, in the form of `functions edit`; `-`
    /// for standard input; flags override it
    #[arg(short, long, value_name = "FILE", group = "handling")]
    file: Option<PathBuf>,
    /// Handler type: process, http or native; default: determined from the configuration
    #[arg(long, value_name = "TYPE", requires = "handling")]
    handler: Option<HandlerType>,
    /// `handler_config`, as a JSON object
    #[arg(long, value_name = "JSON", group = "handling", value_parser = object)]
    config: Option<Value>,
    /// URL for the type http
    #[arg(long, value_name = "URL", group = "handling", conflicts_with = "program")]
    url: Option<String>,
    /// Queue of its runs (default `default`)
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Timeout of an attempt, such as `5min` (default)
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    timeout: Option<i32>,
    /// Number of attempts, 1 for no retry; default: that of the installation
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>)]
    max_attempts: Option<u32>,
    /// JSON Schema (2020-12) for the arguments of its jobs, as a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    args_schema: Option<Value>,
    /// Display name; default: the name
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Program and arguments for the type process, after `--`
    #[arg(last = true, value_name = "PROGRAM", group = "handling")]
    program: Vec<String>,
}

impl CreateArgs {
    fn spec(self) -> Result<(FunctionSpec, Single), ExitError> {
        let mut draft = Draft::read(self.file.as_deref())?;
        draft.set("name", self.name);
        draft.set("handler_config", self.config);
        let mut implied = None;
        if let Some((program, arguments)) = self.program.split_first() {
            implied = Some(HandlerType::Process);
            draft.set_in("handler_config", "program", Some(program.as_str()));
            // The arguments in the file belong to another program.
            let is_said = self.file.is_some() || !arguments.is_empty();
            draft.set_in("handler_config", "args", is_said.then(|| arguments.to_vec()));
        }
        if let Some(url) = self.url {
            implied = Some(HandlerType::Http);
            draft.set_in("handler_config", "url", Some(url));
        }
        draft.set("handler_type", self.handler.or(implied).map(HandlerType::as_str));
        if draft.get("handler_type").is_none() {
            let config = draft.get("handler_config").and_then(Value::as_object);
            let handler = config.and_then(handler_of).ok_or_else(|| {
                usage(anyhow!(
                    "the handler type is missing: set --handler to process, http or native, or set `program`, `url` or `handler` in the \
                     configuration"
                ))
            })?;
            draft.set_default("handler_type", handler.as_str());
        }
        draft.set("queue", self.queue);
        draft.set("default_timeout_seconds", self.timeout);
        draft.set_in("retry_policy", "max_attempts", self.max_attempts);
        draft.set("args_schema", self.args_schema);
        draft.set("display_name", self.display_name);
        draft.set("description", self.description);
        draft.done("task function")
    }
}

/// `None` if the fields fit several types.
fn handler_of(config: &Map<String, Value>) -> Option<HandlerType> {
    let kinds = [
        (HandlerType::Process, &["program", "command", "shell"][..]),
        (HandlerType::Http, &["url"]),
        (HandlerType::Native, &["handler"]),
    ];
    let mut told =
        kinds.into_iter().filter(|(_, fields)| fields.iter().any(|field| config.contains_key(*field)));
    told.next().filter(|_| told.next().is_none()).map(|(handler, _)| handler)
}

pub(super) async fn create(args: CreateArgs, session: &Session) -> CommandResult {
    let (spec, file) = args.spec()?;
    let api = session.api()?;
    let function: Function = match api.create(&["functions", &spec.name], &spec).await {
        Ok(function) => function,
        Err(error) => return Err(placed(suggestions::in_error(&api, error).await, &file)),
    };
    session.output.record(&function, COLUMNS)?;
    queues::warn_unserved(&api, [function.queue.clone()]).await;
    Ok(exit::OK)
}

pub(super) async fn edit(name: &str, session: &Session) -> CommandResult {
    let api = session.api()?;
    let path = ["functions", name];
    let (function, tag): (Function, _) = api.get_tagged(&path).await?;
    if function.handler_config.values().any(holds_hidden) {
        print_notice(&format!(
            "values that may be secrets are hidden: keep {HIDDEN:?} to leave a value unchanged, or replace it"
        ));
    }
    let before = spec_of(function)?;
    let write = async |spec: &FunctionSpec| match &tag {
        Some(tag) => api.replace(&path, tag, spec).await,
        None => api.put(&path, &(), spec).await,
    };
    if let Some(function) = editing::edit("task function", &before, write).await? {
        session.output.record::<Function>(&function, COLUMNS)?;
    }
    Ok(exit::OK)
}

fn spec_of(function: Function) -> Result<FunctionSpec, ExitError> {
    let handler = function.handler_type.parse::<HandlerType>();
    Ok(FunctionSpec {
        name: function.name,
        display_name: Some(function.display_name),
        description: Some(function.description).filter(|text| !text.is_empty()),
        handler_type: handler
            .context("this release does not know the handler type of the function")
            .map_err(failure)?,
        handler_config: function.handler_config,
        queue: function.queue,
        default_timeout_seconds: function.default_timeout_seconds,
        retry_policy: function.retry_policy,
        args_schema: function.args_schema,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_configuration_tells_how_it_is_run_where_only_one_kind_has_its_fields() {
        for (config, handler) in [
            (json!({"program": "true"}), Some(HandlerType::Process)),
            (json!({"shell": true, "command": "true"}), Some(HandlerType::Process)),
            (json!({"url": "https://example.com/"}), Some(HandlerType::Http)),
            (json!({"handler": "tidy"}), Some(HandlerType::Native)),
            (json!({"program": "true", "url": "https://example.com/"}), None),
            (json!({}), None),
        ] {
            assert_eq!(handler_of(config.as_object().unwrap()), handler, "{config}");
        }
    }
}
