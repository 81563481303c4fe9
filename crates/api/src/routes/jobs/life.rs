//! Deletion and restoration of a job.
//!
//! Each is one transaction with its version, audit entry and events. A deletion also cancels the
//! waiting runs.

use actix_web::{HttpResponse, web};
use sched_model::dispatching::cancellations::Order;
use sched_model::domain::ids::{JobId, TenantId};
use sched_model::domain::job::check_name;
use sched_model::jobs::{self, DeleteRequest, Deleted, Job, RestoreRequest as Request, Restored, SaveError};
use sched_model::{Conn, DbResult, events::append, identity::audit};
use sched_wire::{JobDeleted, RestoreRequest};

use super::{
    Cancellation, JobEvent, append_cancelled_runs, append_job_events, auditing, built_in, entity_tag, find,
    no_such_job, shown,
};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::Body;
use crate::http::reply::Reply;

/// As in the column.
const LONGEST_NAME: usize = 200;

/// `DELETE /jobs/{id-or-name}`
pub(crate) async fn delete(call: Call, job: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, version, by) = (call.tenant(), call.if_match()?, &call.by);
    let written = call
        .write("delete_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
            built_in::functions(conn, &call.identity, &[&found.settings.function]).await?;
            let order = Order { by: &by.actor, reason: Some("the job was deleted") };
            let request = DeleteRequest { tenant, job: found.id, version, source: &by.source, order };
            let deleted = jobs::delete(conn, &request).await;
            match deleted.map_err(|error| field_error::save_refused(error, ""))? {
                Deleted::Done { before, after, cancelled } => {
                    let settings = (Some(&before.settings), None);
                    let entry = auditing::of_changed_job("delete_job", after.id, settings, by);
                    audit::write(conn, &[entry]).await?;
                    append_job_events(conn, &[JobEvent { event_type: append::JOB_DELETED, job: &after }], by)
                        .await?;
                    let cancellation = Cancellation { job: &after, runs: &cancelled, order };
                    append_cancelled_runs(conn, tenant, cancellation).await?;
                    Ok((deleted_reply(&after, cancelled.len())?, (after.id, after.settings.name.clone())))
                }
                Deleted::NoSuchJob => Err(no_such_job(&job)),
                Deleted::OtherVersion(found) => Err(ApiError::OtherVersion { found }),
                Deleted::Followed(names) => Err(followed_error(&names)),
            }
        })
        .await?;
    if let Some((id, name)) = written.extra {
        tracing::info!(job.id = %id, job.name = name, "job deleted");
    }
    Ok(written.response)
}

fn deleted_reply(job: &Job, cancelled: usize) -> Result<Reply, ApiError> {
    let (job_id, name, version) = (job.id.0, job.settings.name.clone(), job.state.version);
    Ok(Reply::ok(&JobDeleted { job_id, name, version, cancelled })?.etag(entity_tag(job)))
}

fn followed_error(names: &[String]) -> ApiError {
    let message = format!(
        "{} {} after it and would wait forever; remove it from `after` there, or delete {} first",
        names.join(", "),
        if names.len() == 1 { "runs" } else { "run" },
        if names.len() == 1 { "that job" } else { "those jobs" },
    );
    ApiError::Refused(vec![FieldError { reason: Reason::InUse, pointer: String::new(), message }])
}

/// `POST /jobs/{id-or-name}/restore`
pub(crate) async fn restore(
    call: Call,
    job: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (tenant, version, by) = (call.tenant(), call.if_match()?, &call.by);
    let request: RestoreRequest = body.read_or_default()?;
    if let Some(Err(message)) = request.name.as_deref().map(|name| check_name(name, LONGEST_NAME)) {
        return Err(ApiError::Refused(vec![FieldError::invalid("/name", message)]));
    }
    let written = call
        .write("restore_job", async |conn: &mut Conn| {
            let found = job_to_restore(conn, tenant, &job, request.name.as_deref()).await?;
            let found = found.ok_or_else(|| no_such_job(&job))?;
            built_in::functions(conn, &call.identity, &[&found.settings.function]).await?;
            let name = request.name.as_deref();
            let restoring = Request { tenant, job: found.id, name, version, source: &by.source };
            match jobs::restore(conn, &restoring).await.map_err(refused)? {
                Restored::Done { after, .. } => {
                    let settings = (None, Some(&after.settings));
                    let entry = auditing::of_changed_job("restore_job", after.id, settings, by);
                    audit::write(conn, &[entry]).await?;
                    append_job_events(
                        conn,
                        &[JobEvent { event_type: append::JOB_RESTORED, job: &after }],
                        by,
                    )
                    .await?;
                    let restored = (after.id, after.settings.name.clone());
                    Ok((shown(conn, tenant, *after, call.state.defaults()).await?, Some(restored)))
                }
                Restored::Unchanged(job) => {
                    Ok((shown(conn, tenant, *job, call.state.defaults()).await?, None))
                }
                Restored::OtherName(job) => Err(name_error(&job.settings.name)),
                Restored::NoSuchJob => Err(no_such_job(&job)),
                Restored::OtherVersion(found) => Err(ApiError::OtherVersion { found }),
            }
        })
        .await?;
    if let Some((id, name)) = written.extra.flatten() {
        tracing::info!(job.id = %id, job.name = name, "job restored");
    }
    Ok(written.response)
}

/// The job to restore: by id; or by name, the one that was deleted last, else the existing one.
///
/// A job that was restored since, under its name or the `new` one, still counts as deleted last: a
/// repeated request means this job and not an older one.
async fn job_to_restore(
    conn: &mut Conn,
    tenant: TenantId,
    text: &str,
    new: Option<&str>,
) -> DbResult<Option<Job>> {
    if text.contains('\0') {
        return Ok(None);
    }
    if let Ok(id) = text.parse()
        && let Some(job) = jobs::by_id_with_deleted(conn, tenant, JobId(id)).await?
    {
        return Ok(Some(job));
    }
    let there = jobs::by_name(conn, tenant, new.unwrap_or(text)).await?;
    let Some(gone) = jobs::last_deleted(conn, tenant, text).await? else {
        return match there {
            Some(job) => Ok(Some(job)),
            None => jobs::by_name(conn, tenant, text).await,
        };
    };
    let Some(there) = there else { return Ok(Some(gone)) };
    let was_last = match jobs::versions::last_deletion(conn, tenant, there.id).await? {
        Some((at, name)) => {
            name.as_deref() == Some(text) && gone.state.deleted_at.is_none_or(|gone| gone < at)
        }
        None => false,
    };
    Ok(Some(if was_last { there } else { gone }))
}

fn refused(error: SaveError) -> ApiError {
    let SaveError::Exists(name) = &error else { return field_error::save_refused(error, "") };
    let message = format!(
        "a job named {name:?} is there by now; send a `name` to restore this one under, or delete that one first"
    );
    ApiError::Refused(vec![FieldError {
        reason: Reason::AlreadyExists,
        pointer: "/name".to_owned(),
        message,
    }])
}

fn name_error(name: &str) -> ApiError {
    let message = format!("the job exists, as {name:?}; only a deleted job is restored under another name");
    ApiError::Refused(vec![FieldError {
        reason: Reason::AlreadyExists,
        pointer: "/name".to_owned(),
        message,
    }])
}
