//! Kinds of schedules: list them, and set which accept new jobs, for the whole installation.

use actix_web::{HttpResponse, web};
use sched_model::definitions::job_types::{self, JobTypeRecord};
use sched_model::identity::audit::AuditEntry;
use sched_model::{Conn, identity::audit};
use sched_wire::{JobTypeInfo, JobTypeSpec, Page};

use crate::error::ApiError;
use crate::error::field_error;
use crate::http::call::Call;
use crate::http::cursor::mark;
use crate::http::extract::Body;
use crate::http::pagination::whole;
use crate::http::reply::Reply;
use crate::identity::Identity;
use crate::routes::named_resource::{can_be_there, no_such};
use crate::routes::operations::auditing::plain;
use crate::routes::{Answer, State};

const KIND: &str = "job type";

/// `GET /job-types`
pub(crate) async fn list(state: State, identity: Identity) -> Answer<Page<JobTypeInfo>> {
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
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "get_job_type", async |conn: &mut Conn| {
            job_types::by_name(conn, &name).await?.ok_or_else(|| no_such(KIND, &name))
        })
        .await?;
    // A hash of the content, because job types have no version.
    let etag = format!("\"{}\"", mark(&found));
    Ok(Reply::ok(&show(found))?.etag(etag).into_response())
}

/// `PUT /job-types/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, &name)?;
    let (condition, by) = (call.condition()?, &call.by);
    let JobTypeSpec { is_active } =
        field_error::read(body.required()?, "").map_err(|one| ApiError::Refused(vec![one]))?;
    let written = call
        .write_installation("put_job_type", async |conn: &mut Conn| {
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
                tracing::info!(job_type = after.name, is_active, "job type switched");
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
