//! Kinds of schedule: listing them, and which accept new jobs. They are of the whole installation.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::definitions::job_types::{self, JobTypeRecord};
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, identity::audit};
use sched_wire::{JobTypeInfo, JobTypeSpec, Page};

use crate::error::ApiError;
use crate::error::field_error;
use crate::http::cursor::mark;
use crate::http::extract::{Body, NoParameters, Query, condition};
use crate::http::pagination::whole;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::etag::{can_be_there, no_such};
use crate::routes::operations::auditing::plain;
use crate::routes::{Answer, Id, State};

/// What it is, in messages.
const KIND: &str = "job type";

/// `GET /job-types`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    _: Query<NoParameters>,
) -> Answer<Page<JobTypeInfo>> {
    let rows = state
        .read(&identity, "list_job_types", async |conn: &mut Conn| Ok(job_types::list(conn).await?))
        .await?;
    Ok(web::Json(whole(rows, show)))
}

/// `GET /job-types/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
    _: Query<NoParameters>,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "get_job_type", async |conn: &mut Conn| {
            job_types::by_name(conn, &name).await?.ok_or_else(|| no_such(KIND, &name))
        })
        .await?;
    // It counts no versions, and is what it was when it is switched back.
    let etag = format!("\"{}\"", mark(&found));
    Ok(Reply::ok(&show(found))?.etag(etag).into_response())
}

/// `PUT /job-types/{name}`
pub(crate) async fn put(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &name)?;
    let (condition, by) = (condition(&http)?, &request.0);
    let JobTypeSpec { is_active } =
        field_error::read(body.required()?, "").map_err(|one| ApiError::Refused(vec![one]))?;
    let written = state
        .write_installation(&identity, by, "put_job_type", async |conn: &mut Conn| {
            let before = job_types::set_active(conn, &name, is_active).await?;
            let before = before.ok_or_else(|| no_such(KIND, &name))?;
            condition.check(KIND, Some(&mark(&before)))?;
            let after = JobTypeRecord { is_active, ..before.clone() };
            if before != after {
                let entry = AuditEntry {
                    tenant_id: None,
                    actor: by.actor.clone(),
                    action: "update_job_type",
                    target_type: "job_type",
                    target_id: after.name.clone(),
                    before: Some(plain(&before)),
                    after: Some(plain(&after)),
                    request_id: Some(by.request.clone()),
                    address: by.address.clone(),
                };
                audit::write(conn, &[entry]).await?;
                tracing::info!(job_type = after.name, is_active, "Switched a kind of schedule.");
            }
            let etag = format!("\"{}\"", mark(&after));
            Ok::<_, ApiError>((Reply::ok(&show(after))?.etag(etag), ()))
        })
        .await?;
    Ok(written.response)
}

fn show(record: JobTypeRecord) -> JobTypeInfo {
    let JobTypeRecord { name, display_name, description, is_active } = record;
    JobTypeInfo { name, display_name, description, is_active }
}
