//! `functions`: list, show, pause, deactivate and delete task functions.

mod writing;

use clap::Subcommand;
use sched_runtime::exit;
use sched_wire::{Function, FunctionsQuery, HandlerType, ReasonRequest};
use serde_json::{Map, Value};

use self::writing::CreateArgs;
use crate::commands::{Session, print_more};
use crate::failure::CommandResult;
use crate::output::{Column, effective, or_dash, print_notice, time, yes_or_no};
use crate::values::at_least_one;

#[derive(Debug, Subcommand)]
pub(crate) enum FunctionsCommand {
    /// List task functions by name
    List {
        /// Only functions whose name has this prefix
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
        /// Only functions whose runs wait in this queue by default
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// Only functions of this handler type: process, http, native
        #[arg(long, value_name = "TYPE")]
        handler: Option<HandlerType>,
        /// Only inactive functions, which accept no jobs
        #[arg(long)]
        inactive: bool,
        /// Maximum number of functions to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one task function
    #[command(visible_alias = "show")]
    Get {
        /// Name of the function
        name: String,
    },
    /// Create a task function from flags, a file, or both; fails if one of that name exists
    ///
    /// `schedctl functions create tidy -- /usr/bin/tidy --all` creates one of the type process,
    /// `--url` one of the type http.
    Create(Box<CreateArgs>),
    /// Edit a task function as YAML in an editor (`VISUAL` or `EDITOR`)
    ///
    /// A concurrent change is not overwritten. The edited text is kept if the change is rejected.
    Edit {
        /// Name of the function
        name: String,
    },
    /// Pause a task function: its runs are neither dispatched nor claimed, its fires are skipped
    Pause {
        /// Name of the function
        name: String,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Resume a paused task function
    Resume {
        /// Name of the function
        name: String,
    },
    /// Activate a task function, so that it accepts jobs; jobs that were disabled stay disabled
    Activate {
        /// Name of the function
        name: String,
    },
    /// Deactivate a task function: it accepts no jobs and no triggers, and its jobs are disabled
    /// when they are due
    Deactivate {
        /// Name of the function
        name: String,
    },
    /// Delete a task function; fails while a job uses it
    Delete {
        /// Name of the function
        name: String,
    },
}

const COLUMNS: &[Column<Function>] = &[
    Column::new("NAME", |function| function.name.clone()),
    Column::new("HANDLER", |function| function.handler_type.clone()),
    Column::wide("RUNS", |function| or_dash(runs(&function.handler_config))),
    Column::new("QUEUE", |function| function.queue.clone()),
    Column::new("TIMEOUT", |function| format!("{}s", function.default_timeout_seconds)),
    Column::new("ATTEMPTS", |function| effective(function.effective.max_attempts, "")),
    Column::new("ACTIVE", |function| yes_or_no(function.is_active)),
    Column::new("PAUSED", |function| yes_or_no(function.is_paused)),
    Column::wide("REASON", |function| or_dash(function.pause_reason.clone())),
    Column::wide("ARGS SCHEMA", |function| or_dash(function.args_schema.as_ref().map(schema))),
    Column::wide("DESCRIPTION", |function| function.description.clone()),
    Column::wide("UPDATED", |function| time(function.updated_at)),
    Column::wide("ID", |function| function.id.to_string()),
];

fn runs(config: &Map<String, Value>) -> Option<String> {
    let text = |field: &str| config.get(field).and_then(Value::as_str);
    if let Some(url) = text("url") {
        return Some(format!("{} {url}", text("method").unwrap_or("POST")));
    }
    if let Some(handler) = text("handler") {
        return Some(handler.to_owned());
    }
    let command = text("command").map(|command| format!("sh -c {}", quoted(command)));
    let program = command.or_else(|| text("program").map(quoted))?;
    let arguments = config.get("args").and_then(Value::as_array).into_iter().flatten();
    let arguments = arguments.filter_map(Value::as_str).map(quoted);
    Some([program].into_iter().chain(arguments).collect::<Vec<_>>().join(" "))
}

/// Quotes as a shell would, so that word boundaries are visible.
fn quoted(word: &str) -> String {
    let is_plain = |one: char| one.is_alphanumeric() || "-_./:=@%+,".contains(one);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The argument names, required ones with a star.
fn schema(schema: &Map<String, Value>) -> String {
    let required = |name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let named = schema.get("properties").and_then(Value::as_object);
    let names: Vec<String> = named
        .into_iter()
        .flat_map(Map::keys)
        .map(|name| if required(name) { format!("{name}*") } else { name.clone() })
        .collect();
    if names.is_empty() { "yes".to_owned() } else { names.join(", ") }
}

pub(crate) async fn run(command: FunctionsCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    let nothing = ReasonRequest::default();
    let function: Function = match command {
        FunctionsCommand::List { prefix, queue, handler, inactive, limit } => {
            let query = |limit, cursor| FunctionsQuery {
                name_prefix: prefix.clone(),
                queue: queue.clone(),
                handler_type: handler,
                is_active: inactive.then_some(false),
                limit: Some(limit),
                cursor,
            };
            let functions = api.list(&["functions"], limit, query).await?;
            session.output.page(&functions, COLUMNS, "there are no such task functions")?;
            print_more(&functions, limit);
            return Ok(exit::OK);
        }
        FunctionsCommand::Create(args) => return writing::create(*args, session).await,
        FunctionsCommand::Edit { name } => return writing::edit(&name, session).await,
        FunctionsCommand::Delete { name } => {
            api.delete(&["functions", &name], &()).await?;
            print_notice(&format!("deleted task function {name}"));
            return Ok(exit::OK);
        }
        FunctionsCommand::Get { name } => {
            let function: Function = api.get(&["functions", &name], &()).await?;
            session.output.whole(&function, COLUMNS)?;
            return Ok(exit::OK);
        }
        FunctionsCommand::Pause { name, reason } => {
            api.post(&["functions", &name, "pause"], None, &ReasonRequest { reason }).await?
        }
        FunctionsCommand::Resume { name } => {
            api.post(&["functions", &name, "resume"], None, &nothing).await?
        }
        FunctionsCommand::Activate { name } => {
            api.post(&["functions", &name, "activate"], None, &nothing).await?
        }
        FunctionsCommand::Deactivate { name } => {
            api.post(&["functions", &name, "deactivate"], None, &nothing).await?
        }
    };
    session.output.record(&function, COLUMNS)?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_function_runs_is_told_on_one_line() {
        for (config, told) in [
            (
                json!({"program": "/bin/tidy", "args": ["--all", "two words", "it's", ""]}),
                r"/bin/tidy --all 'two words' 'it'\''s' ''",
            ),
            (json!({"shell": true, "command": "a | b", "args": ["x"]}), "sh -c 'a | b' x"),
            (json!({"url": "https://example.com/"}), "POST https://example.com/"),
            (json!({"url": "https://example.com/", "method": "GET"}), "GET https://example.com/"),
            (json!({"handler": "tidy"}), "tidy"),
        ] {
            assert_eq!(runs(config.as_object().unwrap()).as_deref(), Some(told));
        }
        assert_eq!(runs(&Map::new()), None);
    }
}
