//! Projects: list, show, write and delete them.
//!
//! A write replaces the whole project. A deletion also deletes its jobs if the request says so, in
//! one transaction.

use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::definitions::projects::{
    self, DeleteError, MOST_JOBS, Project as Kept, ProjectSettings, SavedProject,
};
use sched_model::definitions::resources::ChangeError;
use sched_model::dispatching::cancellations::Order;
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::check_name;
use sched_model::identity::audit::AuditEntry;
use sched_model::jobs::DeletedJob;
use sched_model::{Conn, DbResult, events::append, identity::audit};
use sched_wire::{
    Applied, BASE_PATH, DeleteProjectQuery, Kind, Page, PageQuery, Project, ProjectDeleted, ProjectSpec,
};
use serde_json::json;

use crate::convert::IntoWire as _;
use crate::convert::project::{self, show};
use crate::convert::spec::LONGEST_NAME;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::tag;
use crate::routes::jobs::{Cancellation, JobEvent, append_cancelled_runs, append_project_job_events};
use crate::routes::named_resource::{can_be_there, event, no_such, refused};
use crate::routes::notes::Notes;
use crate::routes::operations::auditing::plain;
use crate::routes::{Answer, State, built_in, operations::auditing};

const KIND: &str = "project";

/// `GET /projects`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Project>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"projects", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read(&identity, "list_projects", async |conn: &mut Conn| {
            Ok(projects::list(conn, tenant, pages.after(), pages.rows()).await?)
        })
        .await?;
    Ok(web::Json(pages.page(rows, |project| project.settings.name.clone(), show)))
}

/// `GET /projects/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "get_project", async |conn: &mut Conn| found(conn, tenant, &name).await)
        .await?;
    let etag = (actix_web::http::header::ETAG, tag(found.updated_at));
    Ok(HttpResponse::Ok().insert_header(etag).json(show(found)))
}

/// `PUT /projects/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let (tenant, expected, by) = (call.tenant(), call.expected()?, &call.by);
    let settings = settings(&name, body)?;
    let written = call
        .write("put_project", async |conn: &mut Conn| {
            let saved = projects::save(conn, tenant, &settings, expected)
                .await
                .map_err(|error| refused(error, KIND, &settings.name))?;
            let mut notes = Notes::default();
            note(&saved, by, &mut notes);
            notes.write(conn).await?;
            let reply = match saved.change {
                Change::Created => Reply::created(&show(saved.project.clone()))?
                    .location(format!("{BASE_PATH}/projects/{}", settings.name)),
                Change::Updated | Change::Unchanged => Reply::ok(&show(saved.project.clone()))?,
            };
            Ok::<_, ApiError>((reply.etag(tag(saved.project.updated_at)), saved.change))
        })
        .await?;
    if written.extra.is_some_and(|change| change != Change::Unchanged) {
        tracing::info!(project.name = settings.name, "project written");
    }
    Ok(written.response)
}

/// `DELETE /projects/{name}`
pub(crate) async fn delete(
    call: Call,
    name: web::Path<String>,
    Query(query): Query<DeleteProjectQuery>,
) -> Result<HttpResponse, ApiError> {
    let (tenant, expected, by) = (call.tenant(), call.expected()?, &call.by);
    can_be_there(KIND, &name)?;
    let order = Order { by: &by.actor, reason: Some("its project was deleted") };
    let request = projects::DeleteRequest {
        tenant,
        name: &name,
        expected,
        with_jobs: query.with_jobs,
        source: &by.source,
        order,
    };
    let written = call
        .write("delete_project", async |conn: &mut Conn| {
            let deleted =
                projects::delete(conn, &request).await.map_err(|error| not_deleted(error, &name))?;
            let functions: Vec<&str> =
                deleted.jobs.iter().map(|job| job.before.settings.function.as_str()).collect();
            built_in::functions(conn, &call.identity, &functions).await?;
            let mut entries = Vec::new();
            let mut deleted_jobs = Vec::new();
            for DeletedJob { before, after, .. } in &deleted.jobs {
                let settings = (Some(&before.settings), None);
                entries.push(auditing::of_changed_job("delete_job", after.id, settings, by));
                deleted_jobs.push(JobEvent { event_type: append::JOB_DELETED, job: after });
            }
            let project = &deleted.project;
            entries.push(entry("delete_project", Some(&project.settings), None, by));
            audit::write(conn, &entries).await?;
            append_project_job_events(conn, Some(project.id), &deleted_jobs, by).await?;
            for job in &deleted.jobs {
                let cancellation = Cancellation { job: &job.after, runs: &job.cancelled, order };
                append_cancelled_runs(conn, tenant, cancellation).await?;
            }
            let payload = json!({"name": project.settings.name, "jobs": deleted.jobs.len(), "by": by.source});
            append::append(conn, &[event(tenant, Some(project.id), append::PROJECT_DELETED, payload)])
                .await?;
            let answer = ProjectDeleted {
                name: project.settings.name.clone(),
                jobs: deleted.jobs.len(),
                cancelled: deleted.jobs.iter().map(|job| job.cancelled.len()).sum(),
            };
            Ok::<_, ApiError>((Reply::ok(&answer)?, answer.jobs))
        })
        .await?;
    if let Some(jobs) = written.extra {
        tracing::info!(project.name = name.as_str(), project.jobs = jobs, "project deleted");
    }
    Ok(written.response)
}

/// Writes a project of a manifest, in its transaction.
pub(crate) async fn write(
    conn: &mut Conn,
    settings: &ProjectSettings,
    by: &Actor,
    notes: &mut Notes,
) -> DbResult<Applied> {
    let saved = projects::put(conn, by.tenant, settings).await?;
    note(&saved, by, notes);
    let change = saved.change.into_wire();
    Ok(Applied {
        kind: Kind::Project,
        name: saved.project.settings.name,
        id: Some(saved.project.id.0),
        change,
        version: None,
        changes: notes.fields(change),
    })
}

fn note(saved: &SavedProject, by: &Actor, notes: &mut Notes) {
    let (action, event_type) = match saved.change {
        Change::Created => ("create_project", append::PROJECT_CREATED),
        Change::Updated => ("update_project", append::PROJECT_UPDATED),
        Change::Unchanged => return,
    };
    let project = &saved.project;
    notes.entries.push(entry(action, saved.before.as_ref(), Some(project), by));
    let payload = json!({"name": project.settings.name, "by": by.source});
    notes.events.push(event(by.tenant, Some(project.id), event_type, payload));
}

fn not_deleted(error: DeleteError, name: &str) -> ApiError {
    let in_use = |message: String| {
        ApiError::Refused(vec![FieldError { reason: Reason::InUse, pointer: String::new(), message }])
    };
    match error {
        DeleteError::Change(ChangeError::InUse(users)) => in_use(format!(
            "the project {name:?} has {users}; `with_jobs=true` deletes them with it, or give them another project first"
        )),
        DeleteError::Change(error) => refused(error, KIND, name),
        DeleteError::TooManyJobs => in_use(format!(
            "the project {name:?} has more than {MOST_JOBS} jobs, and no more are deleted at once; delete some of them first"
        )),
        DeleteError::Followed(users) => in_use(format!(
            "{users} of other projects run after jobs of {name:?} and would wait forever; remove those from `after` there first"
        )),
        DeleteError::Job(error) => field_error::save_refused(error, ""),
    }
}

pub(in crate::routes) async fn shown(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> Result<(Reply, ()), ApiError> {
    let project = found(conn, tenant, name).await?;
    let etag = tag(project.updated_at);
    Ok((Reply::ok(&show(project))?.etag(etag), ()))
}

pub(in crate::routes) async fn found(
    conn: &mut Conn,
    tenant: TenantId,
    name: &str,
) -> Result<Kept, ApiError> {
    projects::by_name(conn, tenant, name).await?.ok_or_else(|| no_such(KIND, name))
}

fn settings(name: &str, body: Body) -> Result<ProjectSettings, ApiError> {
    check_name(name, LONGEST_NAME).map_err(|message| ApiError::parameter("name", message))?;
    let spec: ProjectSpec =
        field_error::read(body.required()?, "").map_err(|one| ApiError::Refused(vec![one]))?;
    project::settings(name, spec, "").map_err(ApiError::Refused)
}

fn entry(
    action: &'static str,
    before: Option<&ProjectSettings>,
    after: Option<&Kept>,
    by: &Actor,
) -> AuditEntry {
    let name = after.map(|project| &project.settings).or(before).map(|settings| settings.name.clone());
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action,
        target_type: "project",
        target_id: name.unwrap_or_default(),
        before: before.map(plain),
        after: after.map(|project| plain(&project.settings)),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}
