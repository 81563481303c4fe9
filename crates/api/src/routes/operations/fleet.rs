//! The processes of the installation, and a summary of its state.
//!
//! A step-down request is a note for the leader in the database, in one transaction with its audit
//! entry and its event. The hint that follows may be lost: the leader reads the note with its next
//! heartbeat.

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use sched_model::cluster::leadership::Instance;
use sched_model::domain::identity::Permission;
use sched_model::domain::ids::{InstanceId, WorkerId};
use sched_model::events::append::{self, NewEvent};
use sched_model::running::workers::WorkerPosition;
use sched_model::{
    Conn,
    cluster::{leadership, overview},
    connection::{database_clock, notify},
    identity::audit,
    running::workers,
};
use sched_wire::{Page, SchedulerInstance, Status, StepDownRequest, Worker, WorkersQuery};
use serde_json::json;

use super::auditing;
use crate::convert::{IntoDomain, fleet};
use crate::error::ApiError;
use crate::http::call::Call;
use crate::http::cursor;
use crate::http::extract::{self, Body, Query};
use crate::http::pagination::{Pages, whole};
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::named_resource::no_such;
use crate::routes::{Answer, State};

/// Limit of current runs of a worker in its answer.
const SHOWN_RUNS: i64 = 1_000;
/// Limit of quarantined jobs that the status names. It counts all of them.
const SHOWN_QUARANTINED: i64 = 20;

/// Limit of due jobs that the status names.
const SHOWN_DUE: i64 = 10;

/// `GET /workers`
pub(crate) async fn workers(
    state: State,
    identity: Identity,
    Query(query): Query<WorkersQuery>,
) -> Answer<Page<Worker>> {
    let which = WorkersQuery { limit: None, cursor: None, ..query.clone() };
    let pages = Pages::of(&("workers", which), query.limit, query.cursor.as_deref())?;
    let after = pages.after().map(place_of).transpose()?;
    let filter =
        workers::Filter { status: query.status.map(IntoDomain::into_domain), queue: query.queue, after };
    let (found, now) = state
        .read(&identity, "list_workers", async |conn: &mut Conn| {
            Ok((workers::list(conn, &filter, pages.rows()).await?, database_clock::now(conn).await?))
        })
        .await?;
    let shown = |worker| fleet::worker(worker, now);
    Ok(web::Json(pages.page(found, |worker| key_of(worker.place()), shown)))
}

fn key_of(place: WorkerPosition) -> String {
    let WorkerPosition { offline_since, started_at, worker_id } = place;
    let offline_since = offline_since.map_or(String::new(), |since| since.to_rfc3339());
    format!("{offline_since}/{}/{worker_id}", started_at.to_rfc3339())
}

fn place_of(key: &str) -> Result<WorkerPosition, ApiError> {
    let read = || {
        let [offline_since, started_at, worker_id] =
            key.split('/').collect::<Vec<_>>().try_into().map_err(|_parts| ()).ok()?;
        let offline_since = match offline_since {
            "" => None,
            since => Some(since.parse().ok()?),
        };
        Some(WorkerPosition {
            offline_since,
            started_at: started_at.parse().ok()?,
            worker_id: WorkerId(worker_id.parse().ok()?),
        })
    };
    read().ok_or_else(cursor::broken)
}

/// `GET /workers/{id}`
pub(crate) async fn worker(state: State, identity: Identity, id: web::Path<String>) -> Answer<Worker> {
    let (tenant, worker) = (identity.tenant(), WorkerId(extract::id(&id)?));
    let may_read_runs = identity.caller().permissions.has(Permission::RunsRead);
    let (found, runs, now) = state
        .read(&identity, "get_worker", async |conn: &mut Conn| {
            let found = workers::by_id(conn, worker).await?.ok_or_else(|| no_such("worker", &id))?;
            let mut runs = None;
            if may_read_runs {
                runs = Some(workers::current_runs(conn, tenant, worker, SHOWN_RUNS).await?);
            }
            Ok((found, runs, database_clock::now(conn).await?))
        })
        .await?;
    let runs = runs.map(|runs| runs.into_iter().map(fleet::worker_run).collect());
    Ok(web::Json(Worker { runs, ..fleet::worker(found, now) }))
}

/// `GET /schedulers`
pub(crate) async fn scheduler_instances(state: State, identity: Identity) -> Answer<Page<SchedulerInstance>> {
    let (found, now) = state
        .read(&identity, "list_schedulers", async |conn: &mut Conn| {
            Ok((leadership::list(conn).await?, database_clock::now(conn).await?))
        })
        .await?;
    Ok(web::Json(whole(found, |found| fleet::instance(found, now, state.leader_lease))))
}

/// `GET /schedulers/{id}`
pub(crate) async fn scheduler_instance(
    state: State,
    identity: Identity,
    id: web::Path<String>,
) -> Answer<SchedulerInstance> {
    let instance = InstanceId(extract::id(&id)?);
    let (found, now) = state
        .read(&identity, "get_scheduler", async |conn: &mut Conn| {
            let found = leadership::by_id(conn, instance).await?;
            let found = found.ok_or_else(|| no_such("scheduler", &id))?;
            Ok((found, database_clock::now(conn).await?))
        })
        .await?;
    Ok(web::Json(fleet::instance(found, now, state.leader_lease)))
}

/// `POST /schedulers/leader/step-down`
pub(crate) async fn step_down(call: Call, body: Body) -> Result<HttpResponse, ApiError> {
    let StepDownRequest { force } = body.read_or_default()?;
    let written = call
        .write_installation("request_step_down", async |conn: &mut Conn| {
            let leader = leadership::request_step_down(conn).await?.ok_or(ApiError::NoLeader)?;
            if !force && !leadership::has_standby(conn, call.state.leader_lease).await? {
                return Err(ApiError::NoStandby);
            }
            audit::write(conn, &[auditing::of_step_down(&leader, &call.by)]).await?;
            append::append(conn, &[step_down_requested(&leader)]).await?;
            let (id, term, now) = (leader.id, leader.term, database_clock::now(conn).await?);
            let shown = fleet::instance(leader, now, call.state.leader_lease);
            Ok::<_, ApiError>((Reply::with(StatusCode::ACCEPTED, &shown)?, (id, term)))
        })
        .await?;
    if let Some((id, term)) = written.extra {
        tracing::info!(instance.id = %id, leader.term = ?term, "leader step-down requested");
        call.state.hint("the leader", async |conn: &mut Conn| notify::step_down_requested(conn).await).await;
    }
    Ok(written.response)
}

fn step_down_requested(leader: &Instance) -> NewEvent {
    NewEvent {
        tenant_id: None,
        project_id: None,
        job_id: None,
        dispatch_id: None,
        event_type: append::STEP_DOWN_REQUESTED,
        payload: json!({
            "instance_id": leader.id,
            "hostname": leader.hostname,
            "pid": leader.pid,
            "term": leader.term,
        }),
    }
}

/// `GET /status`
pub(crate) async fn status(state: State, identity: Identity) -> Answer<Status> {
    let tenant = identity.tenant();
    let (counts, waiting, named) = state
        .read(&identity, "show_status", async |conn: &mut Conn| {
            let counts = overview::counts(conn, tenant, state.leader_lease).await?;
            let waiting = overview::waiting(conn, tenant).await?;
            let quarantined = match counts.jobs_quarantined {
                0 => Vec::new(),
                _ => overview::quarantined(conn, tenant, SHOWN_QUARANTINED).await?,
            };
            let next_due = overview::next_due(conn, tenant, SHOWN_DUE).await?;
            Ok((counts, waiting, fleet::NamedJobs { quarantined, next_due }))
        })
        .await?;
    Ok(web::Json(fleet::status(counts, waiting, named, state.leader_lease)))
}
