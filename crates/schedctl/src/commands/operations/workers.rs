//! `workers`: list and drain them. The worker reads a drain request with its next heartbeat;
//! `--wait` polls until it is done.

use std::time::Duration;

use clap::Subcommand;
use sched_runtime::exit;
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{ReasonRequest, UnknownWord, Worker, WorkerRun, WorkerStatus, WorkersQuery};
use uuid::Uuid;

use crate::api::Api;
use crate::commands::runs::progress;
use crate::commands::{Session, print_more};
use crate::failure::{CommandResult, failure};
use crate::output::{Column, age, join_list, or_dash, print_notice, time};
use crate::values::{at_least_one, duration, id};

const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// List workers, live ones first
    ///
    /// STATUS and RUNNING are those of the last heartbeat; AS OF is its age. `schedctl status`
    /// counts the running runs of the present.
    List {
        /// Only in this state: IDLE, BUSY, DRAINING or OFFLINE
        #[arg(long, value_name = "STATUS", value_parser = status)]
        status: Option<WorkerStatus>,
        /// Only workers that serve this queue
        #[arg(long, value_name = "NAME")]
        queue: Option<String>,
        /// Maximum number of workers to list
        #[arg(long, value_name = "COUNT", default_value_t = 200, value_parser = at_least_one)]
        limit: usize,
    },
    /// Show one worker and its current runs
    #[command(visible_alias = "show")]
    Get {
        /// Id, as shown by `schedctl workers list`
        #[arg(value_parser = id)]
        id: Uuid,
    },
    /// Drain a worker: it claims no new runs and finishes its attempts
    Drain {
        /// Id, as shown by `schedctl workers list`
        #[arg(value_parser = id)]
        id: Uuid,
        /// Wait until the worker has finished all attempts or is gone
        #[arg(long)]
        wait: bool,
        /// Maximum wait of --wait; exit code 1 afterwards
        #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration)]
        wait_timeout: Duration,
    },
    /// Let a draining worker claim runs again
    Undrain {
        /// Id, as shown by `schedctl workers list`
        #[arg(value_parser = id)]
        id: Uuid,
        /// Wait until the worker claims runs again
        #[arg(long)]
        wait: bool,
        /// Maximum wait of --wait; exit code 1 afterwards
        #[arg(long, value_name = "DURATION", default_value = "5min", value_parser = duration)]
        wait_timeout: Duration,
    },
}

const COLUMNS: &[Column<Worker>] = &[
    Column::new("ID", |worker| worker.id.to_string()),
    Column::new("HOST", |worker| worker.hostname.clone()),
    Column::new("PID", |worker| worker.process_id.to_string()),
    Column::new("STATUS", |worker| worker.status.to_string()),
    Column::new("RUNNING", |worker| format!("{}/{}", worker.running, worker.concurrency)),
    Column::new("AS OF", |worker| age(worker.heartbeat_age_seconds)),
    Column::new("QUEUES", |worker| join_list(&worker.queues)),
    Column::wide("HEARTBEAT", |worker| time(worker.last_heartbeat)),
    Column::wide("PROCESSED", |worker| worker.jobs_processed.to_string()),
    Column::wide("STARTED", |worker| time(worker.started_at)),
    Column::wide("OFFLINE SINCE", |worker| or_dash(worker.offline_since.map(time))),
    Column::wide("DRAIN SINCE", |worker| or_dash(worker.drain_requested_at.map(time))),
    Column::wide("VERSION", |worker| worker.version.clone()),
    Column::wide("PLATFORM", |worker| worker.platform.clone()),
];

const RUNS: &[Column<WorkerRun>] = &[
    Column::new("RUN", |run| run.run_id.to_string()),
    Column::new("JOB", |run| run.job.clone()),
    Column::new("ATTEMPT", |run| run.attempt.to_string()),
    Column::new("QUEUE", |run| run.queue.clone()),
    Column::new("CLAIMED", |run| time(run.claimed_at)),
    Column::new("PROGRESS", |run| or_dash(run.progress.as_ref().map(progress))),
    Column::wide("SCHEDULED FOR", |run| time(run.scheduled_for)),
    Column::wide("ATTEMPT ID", |run| run.attempt_id.to_string()),
];

pub(crate) async fn run(command: WorkersCommand, session: &Session) -> CommandResult {
    let api = session.api()?;
    match command {
        WorkersCommand::List { status, queue, limit } => {
            let none = if status.is_none() && queue.is_none() {
                "no worker has registered"
            } else {
                "no worker matches"
            };
            let query =
                |limit, cursor| WorkersQuery { status, queue: queue.clone(), limit: Some(limit), cursor };
            let workers = api.list(&["workers"], limit, query).await?;
            session.output.page(&workers, COLUMNS, none)?;
            print_more(&workers, limit);
        }
        WorkersCommand::Get { id } => {
            let worker: Worker = api.get(&["workers", &id.to_string()], &()).await?;
            if !session.output.is_table() {
                session.output.record(&worker, &[])?;
                return Ok(exit::OK);
            }
            session.output.whole(&worker, COLUMNS)?;
            // Without `runs:read` the answer has none.
            if let Some(runs) = &worker.runs {
                session.output.print("\n")?;
                match runs.as_slice() {
                    [] => print_notice("the worker has no run of this tenant"),
                    runs => session.output.rows(runs, RUNS)?,
                }
            }
        }
        WorkersCommand::Drain { id, wait, wait_timeout } => {
            let worker = request(&api, id, "drain").await?;
            let is_done = |worker: &Worker| worker.status == WorkerStatus::Draining && worker.running == 0;
            match until(&api, worker, wait.then_some(wait_timeout), is_done).await? {
                Some(worker) => session.output.record(&worker, COLUMNS)?,
                None => print_notice(&format!("worker {id} is gone")),
            }
        }
        WorkersCommand::Undrain { id, wait, wait_timeout } => {
            let worker = request(&api, id, "undrain").await?;
            let is_done = |worker: &Worker| worker.status != WorkerStatus::Draining;
            match until(&api, worker, wait.then_some(wait_timeout), is_done).await? {
                Some(worker) => session.output.record(&worker, COLUMNS)?,
                None => return Err(failure(anyhow::anyhow!("worker {id} is gone"))),
            }
        }
    }
    Ok(exit::OK)
}

fn status(text: &str) -> Result<WorkerStatus, UnknownWord> {
    text.to_ascii_lowercase().parse()
}

async fn request(api: &Api, id: Uuid, action: &str) -> Result<Worker, exit::ExitError> {
    Ok(api.post(&["workers", &id.to_string(), action], None, &ReasonRequest::default()).await?)
}

/// Returns at once without a wait; `None` if the worker is gone or was marked as lost.
async fn until(
    api: &Api,
    worker: Worker,
    limit: Option<Duration>,
    is_done: impl Fn(&Worker) -> bool,
) -> Result<Option<Worker>, exit::ExitError> {
    let Some(limit) = limit else { return Ok(Some(worker)) };
    let begun = monotonic();
    let mut worker = worker;
    while !is_done(&worker) {
        if monotonic().saturating_duration_since(begun) > limit {
            let text = format!(
                "worker {} is {} and runs {} after {limit:?}",
                worker.id, worker.status, worker.running
            );
            return Err(failure(anyhow::anyhow!(text)));
        }
        tokio::time::sleep(LOOK).await;
        match api.get(&["workers", &worker.id.to_string()], &()).await {
            Ok(found) => worker = found,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        if worker.status == WorkerStatus::Offline {
            return Ok(None);
        }
    }
    Ok(Some(worker))
}
