//! `queues`: listing them, setting their limits, pausing and deleting them.
//!
//! `set` reads the queue, changes what was asked for and writes it as a whole, over what it read and nothing else: what it does not name stays,
//! and a pause that somebody sets in between is not undone.
//!
//! What is put into a queue that no worker serves waits without an end, so the commands that name queues tell of it ([`tell_of_unserved`]).

use clap::{Args, Subcommand};
use sched_runtime::exit;
use sched_wire::{Queue, QueueSpec, QueuesQuery, Rate, ReasonRequest};

use crate::api::Api;
use crate::commands::{Session, tell_of_more};
use crate::failure::{CommandResult, failure};
use crate::output::{Column, neutral, or_dash, tell, time};
use crate::values::{at_least_one, whole, within};

/// Most queues that are read for a note.
const MOST_ASKED: usize = 20;

#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// List queues by name, with their limits and how much of them is used
    List {
        /// Only those whose name begins so
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
        /// Only those that are paused
        #[arg(long)]
        paused: bool,
        /// Most queues to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one queue
    #[command(visible_alias = "show")]
    Get {
        /// Its name
        name: String,
    },
    /// Change a queue, or make one; what is not named stays as it is
    Set(SetArgs),
    /// Claim nothing from a queue until it is resumed; fire times meanwhile are skipped, triggers wait
    Pause {
        /// Its name
        name: String,
        /// Why, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// End the pause of a queue
    Resume {
        /// Its name
        name: String,
    },
    /// Delete a queue that nothing names and in which nothing waits
    Delete {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Its name
    name: String,
    /// How many of its runs may run at once, over all workers
    #[arg(long, value_name = "COUNT", value_parser = whole::<i32>, allow_negative_numbers = true, conflicts_with = "no_max_running")]
    max_running: Option<i32>,
    /// Let any number run at once
    #[arg(long)]
    no_max_running: bool,
    /// How many of its runs may be claimed per period, as COUNT/SECONDS
    #[arg(long, value_name = "COUNT/SECONDS", value_parser = rate, conflicts_with = "no_rate")]
    rate: Option<Rate>,
    /// Let them be claimed as fast as can be
    #[arg(long)]
    no_rate: bool,
    /// Claim nothing from it until it is resumed; fire times meanwhile are skipped, triggers wait
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Why it is paused
    #[arg(long, value_name = "TEXT", requires = "pause")]
    reason: Option<String>,
    /// End its pause
    #[arg(long)]
    resume: bool,
    /// Priority of runs whose job names none, 0 runs first, 100 last
    #[arg(long, value_name = "PRIORITY", value_parser = within(0_i16, 100), allow_negative_numbers = true)]
    default_priority: Option<i16>,
    /// What it is for
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

const LIST: &[Column<Queue>] = &[
    Column::new("NAME", |queue| queue.name.clone()),
    Column::new("PAUSED", |queue| queue.is_paused.to_string()),
    Column::new("WAITING", |queue| {
        format!("{}{}", queue.waiting, if queue.waiting_is_at_least { "+" } else { "" })
    }),
    Column::new("WORKERS", |queue| or_dash(queue.workers)),
    Column::new("RUNNING", |queue| or_dash(used(queue.running, queue.max_running))),
    Column::new("CLAIMED", |queue| or_dash(used(queue.claimed_in_period, queue.rate.map(|rate| rate.count)))),
    Column::new("PERIOD", |queue| or_dash(queue.rate.map(|rate| format!("{}s", rate.period_seconds)))),
    Column::new("PRIORITY", |queue| queue.default_priority.to_string()),
    Column::wide("DESCRIPTION", |queue| queue.description.clone()),
    Column::wide("REASON", |queue| or_dash(queue.pause_reason.clone())),
    Column::wide("FIRST DUE", |queue| or_dash(queue.oldest_claimable_at.map(time))),
    Column::wide("UPDATED", |queue| time(queue.updated_at)),
];

pub(crate) async fn run(command: QueuesCommand, session: &Session) -> CommandResult {
    match command {
        QueuesCommand::List { prefix, paused, limit } => {
            let query = |limit, cursor| QueuesQuery {
                name_prefix: prefix.clone(),
                paused: paused.then_some(true),
                limit: Some(limit),
                cursor,
            };
            let queues = session.api()?.list(&["queues"], limit, query).await?;
            session.output.page(&queues, LIST, "there are no such queues")?;
            tell_of_more(&queues, limit);
        }
        QueuesCommand::Get { name } => {
            let queue: Queue = session.api()?.get(&["queues", &name], &()).await?;
            session.output.whole(&queue, LIST)?;
        }
        QueuesCommand::Pause { name, reason } => {
            let asked = ReasonRequest { reason };
            let queue: Queue = session.api()?.post(&["queues", &name, "pause"], None, &asked).await?;
            session.output.record(&queue, LIST)?;
        }
        QueuesCommand::Resume { name } => {
            let asked = ReasonRequest::default();
            let queue: Queue = session.api()?.post(&["queues", &name, "resume"], None, &asked).await?;
            session.output.record(&queue, LIST)?;
        }
        QueuesCommand::Delete { name } => {
            session.api()?.delete(&["queues", &name], &()).await?;
            tell(&format!("deleted queue {name}"));
        }
        QueuesCommand::Set(args) => {
            let api = session.api()?;
            let path = ["queues", args.name.as_str()];
            let (now, tag): (Option<Queue>, _) = match api.get_tagged(&path).await {
                Ok((queue, tag)) => (Some(queue), tag),
                Err(error) if error.is_not_found() => (None, None),
                Err(error) => return Err(error.into()),
            };
            if now.is_none() && (args.pause || args.resume) {
                // Most likely misspelt; a new queue that is paused would hide that the one that was meant is not.
                return Err(failure(format!(
                    "there is no queue {:?}, `schedctl queues list` shows those there are; make it first, with \
                     `schedctl queues set {}`",
                    args.name, args.name
                )));
            }
            let is_new = now.is_none();
            let spec = changed(now, &args);
            let queue: Queue = match tag {
                Some(tag) => api.replace(&path, &tag, &spec).await?,
                None if is_new => api.create(&path, &spec).await?,
                None => api.put(&path, &(), &spec).await?,
            };
            session.output.row(&queue, LIST)?;
            tell_if_unserved(&api, &queue);
        }
    }
    Ok(exit::OK)
}

/// Says of which of these queues no living worker takes anything. One that cannot be read is no reason to fail after the work was done.
pub(crate) async fn tell_of_unserved(api: &Api, names: impl IntoIterator<Item = String>) {
    if serves_all(api) {
        return;
    }
    for name in names.into_iter().take(MOST_ASKED) {
        match api.get::<Queue>(&["queues", &name], &()).await {
            Ok(queue) => tell_if_unserved(api, &queue),
            Err(error) if error.is_not_found() => {}
            Err(_) => return,
        }
    }
}

fn tell_if_unserved(api: &Api, queue: &Queue) {
    if queue.workers == Some(0) && !serves_all(api) {
        let name = neutral::line(&queue.name);
        tell(&format!(
            "note: no living worker serves queue {name}; what is put there waits until one does, started with {name} in its WORKER_QUEUES"
        ));
    }
}

/// Whether the workers of the installation take up each new queue: those of `schedctl dev` do.
fn serves_all(api: &Api) -> bool {
    api.source().dev().is_some()
}

/// What the queue is to be, from what it is.
fn changed(now: Option<Queue>, args: &SetArgs) -> QueueSpec {
    let mut spec = now.map_or_else(QueueSpec::default, |queue| QueueSpec {
        description: queue.description,
        is_paused: queue.is_paused,
        pause_reason: queue.pause_reason,
        max_running: queue.max_running,
        rate: queue.rate,
        default_priority: Some(queue.default_priority),
    });
    spec.description = args.description.clone().unwrap_or(spec.description);
    spec.default_priority = args.default_priority.or(spec.default_priority);
    spec.max_running = if args.no_max_running { None } else { args.max_running.or(spec.max_running) };
    spec.rate = if args.no_rate { None } else { args.rate.or(spec.rate) };
    if args.pause {
        spec.is_paused = true;
        spec.pause_reason = args.reason.clone();
    } else if args.resume {
        spec.is_paused = false;
        spec.pause_reason = None;
    }
    spec
}

fn used(used: Option<i64>, of: Option<i32>) -> Option<String> {
    Some(format!("{}/{}", used.unwrap_or(0), of?))
}

fn rate(text: &str) -> Result<Rate, String> {
    let (count, period) = text.split_once('/').ok_or("has the form COUNT/SECONDS, as in 100/60")?;
    match (count.parse(), period.parse()) {
        (Ok(count), Ok(period_seconds)) => Ok(Rate { count, period_seconds }),
        _ => Err("has two whole numbers, as in 100/60".to_owned()),
    }
}
