//! `queues`. `set` writes only an unchanged queue, so a concurrent pause is not undone. Runs in a
//! queue without a worker wait indefinitely, so commands report such queues.

use clap::{Args, Subcommand};
use sched_runtime::exit;
use sched_wire::{Queue, QueueSpec, QueuesQuery, Rate, ReasonRequest};

use crate::api::Api;
use crate::commands::{Session, print_more};
use crate::failure::{CommandResult, failure};
use crate::output::{Column, neutral, or_dash, print_notice, time, yes_or_no};
use crate::values::{at_least_one, whole, within};

const MOST_ASKED: usize = 20;

#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// List queues by name, with their limits and usage
    List {
        /// Only queues whose name has this prefix
        #[arg(long, value_name = "TEXT")]
        prefix: Option<String>,
        /// Only paused queues
        #[arg(long)]
        paused: bool,
        /// Maximum number of queues to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one queue
    #[command(visible_alias = "show")]
    Get {
        /// Name of the queue
        name: String,
    },
    /// Create or change a queue; fields without a flag keep their value
    Set(SetArgs),
    /// Pause a queue: no runs are claimed, fires are skipped, triggered runs wait
    Pause {
        /// Name of the queue
        name: String,
        /// Reason, for people
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Resume a paused queue
    Resume {
        /// Name of the queue
        name: String,
    },
    /// Delete a queue; fails while a definition names it or runs wait in it
    Delete {
        /// Name of the queue
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// Name of the queue
    name: String,
    /// Maximum number of its running runs over all workers
    #[arg(long, value_name = "COUNT", value_parser = whole::<i32>, allow_negative_numbers = true, conflicts_with = "no_max_running")]
    max_running: Option<i32>,
    /// Remove the maximum of running runs
    #[arg(long)]
    no_max_running: bool,
    /// Maximum number of claims per period, as COUNT/SECONDS
    #[arg(long, value_name = "COUNT/SECONDS", value_parser = rate, conflicts_with = "no_rate")]
    rate: Option<Rate>,
    /// Remove the rate limit
    #[arg(long)]
    no_rate: bool,
    /// Pause it: no runs are claimed, fires are skipped, triggered runs wait
    #[arg(long, conflicts_with = "resume")]
    pause: bool,
    /// Reason of the pause
    #[arg(long, value_name = "TEXT", requires = "pause")]
    reason: Option<String>,
    /// Resume it
    #[arg(long)]
    resume: bool,
    /// Priority of runs whose job has none, 0 first to 100 last
    #[arg(long, value_name = "PRIORITY", value_parser = within(0_i16, 100), allow_negative_numbers = true)]
    default_priority: Option<i16>,
    /// Description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

const LIST: &[Column<Queue>] = &[
    Column::new("NAME", |queue| queue.name.clone()),
    Column::new("PAUSED", |queue| yes_or_no(queue.is_paused)),
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
            print_more(&queues, limit);
        }
        QueuesCommand::Get { name } => {
            let queue: Queue = session.api()?.get(&["queues", &name], &()).await?;
            session.output.whole(&queue, LIST)?;
        }
        QueuesCommand::Pause { name, reason } => {
            let request = ReasonRequest { reason };
            let queue: Queue = session.api()?.post(&["queues", &name, "pause"], None, &request).await?;
            session.output.record(&queue, LIST)?;
        }
        QueuesCommand::Resume { name } => {
            let request = ReasonRequest::default();
            let queue: Queue = session.api()?.post(&["queues", &name, "resume"], None, &request).await?;
            session.output.record(&queue, LIST)?;
        }
        QueuesCommand::Delete { name } => {
            session.api()?.delete(&["queues", &name], &()).await?;
            print_notice(&format!("deleted queue {name}"));
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
                // A new paused queue would hide that the intended one is not paused.
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
            warn_if_unserved(&api, &queue);
        }
    }
    Ok(exit::OK)
}

/// A queue that cannot be read is skipped: the command itself has succeeded.
pub(crate) async fn warn_unserved(api: &Api, names: impl IntoIterator<Item = String>) {
    if serves_all(api) {
        return;
    }
    for name in names.into_iter().take(MOST_ASKED) {
        match api.get::<Queue>(&["queues", &name], &()).await {
            Ok(queue) => warn_if_unserved(api, &queue),
            Err(error) if error.is_not_found() => {}
            Err(_) => return,
        }
    }
}

fn warn_if_unserved(api: &Api, queue: &Queue) {
    if queue.workers == Some(0) && !serves_all(api) {
        let name = neutral::line(&queue.name);
        print_notice(&format!(
            "note: no live worker serves queue {name}; its runs wait for a worker with {name} in its WORKER_QUEUES"
        ));
    }
}

/// Whether workers serve new queues automatically, as those of `schedctl dev` do.
fn serves_all(api: &Api) -> bool {
    api.source().dev().is_some()
}

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
    match of {
        Some(of) => Some(format!("{}/{of}", used.unwrap_or(0))),
        None => used.map(|used| used.to_string()),
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let (count, period) = text.split_once('/').ok_or("has the form COUNT/SECONDS, as in 100/60")?;
    match (count.parse(), period.parse()) {
        (Ok(count), Ok(period_seconds)) => Ok(Rate { count, period_seconds }),
        _ => Err("has two whole numbers, as in 100/60".to_owned()),
    }
}
