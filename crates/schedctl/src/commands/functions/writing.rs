//! `functions create` and `functions edit`: making a task function from flags, a file or both, and changing one in an editor.
//!
//! Neither writes over what it has not read: a function of that name that is there already, or that somebody has changed in the meantime, is refused
//! by the API. What the API does not show of a function has to be given again, which is told.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use sched_runtime::exit::{self, ExitError};
use sched_wire::{Function, FunctionSpec, HandlerType};
use serde_json::Value;

use super::super::draft::{Draft, object};
use super::super::export::{HIDDEN, holds_hidden};
use super::super::{Session, editing};
use super::COLUMNS;
use crate::failure::{CommandResult, failure};
use crate::output::tell;
use crate::values::{seconds, whole};

/// What to make.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("handling").required(true).multiple(true))]
pub(crate) struct CreateArgs {
    /// Its name; without it the one in the file
    #[arg(required_unless_present = "file")]
    name: Option<String>,
    /// YAML or JSON file with the fields of one task function, as `functions edit` shows them; `-` for standard input; what flags say stands
    /// over it
    #[arg(short, long, value_name = "FILE", group = "handling")]
    file: Option<PathBuf>,
    /// How it is run: process, http, native
    #[arg(long, value_name = "TYPE", requires = "handling")]
    handler: Option<HandlerType>,
    /// `handler_config`, a JSON object
    #[arg(long, value_name = "JSON", group = "handling", value_parser = object)]
    config: Option<Value>,
    /// Address that a function of the type http calls
    #[arg(long, value_name = "URL", group = "handling", conflicts_with = "program")]
    url: Option<String>,
    /// Queue of its dispatches; `default` without it
    #[arg(long, value_name = "NAME")]
    queue: Option<String>,
    /// Longest run of an attempt, such as `5min`, which it is without this
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    timeout: Option<i32>,
    /// Attempts in all, 1 for no retry; the installation's without it
    #[arg(long, value_name = "COUNT", value_parser = whole::<u32>)]
    max_attempts: Option<u32>,
    /// JSON Schema (2020-12) that the arguments of its jobs must satisfy, a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    args_schema: Option<Value>,
    /// Name shown to people; its name without it
    #[arg(long, value_name = "TEXT")]
    display_name: Option<String>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Program that a function of the type process runs, and its arguments, behind `--`
    #[arg(last = true, value_name = "PROGRAM", group = "handling")]
    program: Vec<String>,
}

impl CreateArgs {
    fn spec(self) -> Result<FunctionSpec, ExitError> {
        let mut draft = Draft::read(self.file.as_deref())?;
        draft.set("name", self.name);
        draft.set("handler_config", self.config);
        let mut implied = None;
        if let Some((program, arguments)) = self.program.split_first() {
            implied = Some(HandlerType::Process);
            draft.set_in("handler_config", "program", Some(program.as_str()));
            // Those of another program in the file are not meant.
            let is_said = self.file.is_some() || !arguments.is_empty();
            draft.set_in("handler_config", "args", is_said.then(|| arguments.to_vec()));
        }
        if let Some(url) = self.url {
            implied = Some(HandlerType::Http);
            draft.set_in("handler_config", "url", Some(url));
        }
        draft.set("handler_type", self.handler.or(implied).map(HandlerType::as_str));
        draft.set("queue", self.queue);
        draft.set("default_timeout_seconds", self.timeout);
        draft.set_in("retry_policy", "max_attempts", self.max_attempts);
        draft.set("args_schema", self.args_schema);
        draft.set("display_name", self.display_name);
        draft.set("description", self.description);
        draft.done("task function")
    }
}

pub(super) async fn create(args: CreateArgs, session: &Session) -> CommandResult {
    let spec = args.spec()?;
    let function: Function = session.api()?.create(&["task-functions", &spec.name], &spec).await?;
    session.output.record(&function, COLUMNS)?;
    Ok(exit::OK)
}

pub(super) async fn edit(name: &str, session: &Session) -> CommandResult {
    let api = session.api()?;
    let path = ["task-functions", name];
    let (function, tag): (Function, _) = api.get_tagged(&path).await?;
    if function.handler_config.values().any(holds_hidden) {
        tell(&format!(
            "values of variables, headers and signing secrets that are written down are not shown: put them where {HIDDEN:?} stands, or name secrets there"
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

/// What is written of a function.
fn spec_of(function: Function) -> Result<FunctionSpec, ExitError> {
    let handler = function.handler_type.parse::<HandlerType>();
    Ok(FunctionSpec {
        name: function.name,
        display_name: Some(function.display_name),
        description: Some(function.description).filter(|text| !text.is_empty()),
        handler_type: handler
            .context("this release does not know how the function is run")
            .map_err(failure)?,
        handler_config: function.handler_config,
        queue: function.queue,
        default_timeout_seconds: function.default_timeout_seconds,
        retry_policy: function.retry_policy,
        args_schema: function.args_schema,
    })
}
