//! Projects: listing, showing, writing, pausing and deleting them.
//!
//! A name says which; a write says what it should be, so repeating one is harmless. A project that is deleted takes its jobs along, if who
//! asks says that it should: one transaction with theirs, or nothing.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::definitions::pauses::{Target, Turn};
use sched_model::definitions::projects::{self, DeleteError, MOST_JOBS, Project as Kept, ProjectSettings};
use sched_model::definitions::resources::ChangeError;
use sched_model::dispatching::cancellations::Order;
use sched_model::domain::identity::check_display_name;
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::check_name;
use sched_model::identity::audit::AuditEntry;
use sched_model::jobs::DeletedJob;
use sched_model::{Conn, connection::notify, events::append, identity::audit};
use sched_wire::{BASE_PATH, DeleteProjectQuery, Page, PageQuery, Project, ProjectDeleted, ProjectSpec};
use serde_json::json;

use crate::convert::spec::{LONGEST_DESCRIPTION, LONGEST_NAME};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::extract::{Body, NoParameters, Query, expected};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::{Switch, can_be_there, event, no_such, refused, tag};
use crate::routes::jobs::{Told, tell_of_cancelled, tell_within};
use crate::routes::operations::auditing::plain;
use crate::routes::runs::cancellations::reason;
use crate::routes::{Answer, Id, State, built_in, operations::auditing};

/// What it is, in messages.
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
    _: Query<NoParameters>,
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
pub(crate) async fn put(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let (tenant, expected, by) = (identity.tenant(), expected(&http)?, &request.0);
    let settings = settings(&name, body)?;
    let written = state
        .write(&identity, by, "put_project", async |conn: &mut Conn| {
            let saved = projects::save(conn, tenant, &settings, expected)
                .await
                .map_err(|error| refused(error, KIND, &settings.name))?;
            let project = &saved.project;
            let (action, event_type) = match saved.change {
                Change::Created => ("create_project", append::PROJECT_CREATED),
                Change::Updated | Change::Unchanged => ("update_project", append::PROJECT_UPDATED),
            };
            if saved.change != Change::Unchanged {
                audit::write(conn, &[entry(tenant, action, saved.before.as_ref(), Some(project), by)])
                    .await?;
                let payload = json!({"name": settings.name, "by": by.source});
                append::append(conn, &[event(tenant, Some(project.id), event_type, payload)]).await?;
            }
            let reply = match saved.change {
                Change::Created => Reply::created(&show(saved.project.clone()))?
                    .location(format!("{BASE_PATH}/projects/{}", settings.name)),
                Change::Updated | Change::Unchanged => Reply::ok(&show(saved.project.clone()))?,
            };
            Ok::<_, ApiError>((reply.etag(tag(saved.project.updated_at)), saved.change))
        })
        .await?;
    if written.extra.is_some_and(|change| change != Change::Unchanged) {
        tracing::info!(project.name = settings.name, "Wrote a project.");
    }
    Ok(written.response)
}

/// `DELETE /projects/{name}`
pub(crate) async fn delete(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    Query(query): Query<DeleteProjectQuery>,
) -> Result<HttpResponse, ApiError> {
    let (tenant, expected, by) = (identity.tenant(), expected(&http)?, &request.0);
    can_be_there(KIND, &name)?;
    let order = Order { by: &by.actor, reason: Some("its project was deleted") };
    let asked = projects::DeleteRequest {
        tenant,
        name: &name,
        expected,
        with_jobs: query.with_jobs,
        source: &by.source,
        order,
    };
    let written = state
        .write(&identity, by, "delete_project", async |conn: &mut Conn| {
            let deleted = projects::delete(conn, &asked).await.map_err(|error| not_deleted(error, &name))?;
            let functions: Vec<&str> =
                deleted.jobs.iter().map(|job| job.before.settings.function.as_str()).collect();
            built_in::functions(conn, &identity, &functions).await?;
            let mut entries = Vec::new();
            let mut told = Vec::new();
            for DeletedJob { before, after, .. } in &deleted.jobs {
                let settings = (Some(&before.settings), None);
                entries.push(auditing::of_changed_job(tenant, "delete_job", after.id, settings, by));
                told.push(Told { event_type: append::JOB_DELETED, job: after });
            }
            let project = &deleted.project;
            entries.push(entry(tenant, "delete_project", Some(&project.settings), None, by));
            audit::write(conn, &entries).await?;
            tell_within(conn, tenant, Some(project.id), &told, by).await?;
            for job in &deleted.jobs {
                tell_of_cancelled(conn, tenant, &job.after, &job.cancelled, &order).await?;
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
        tracing::info!(project.name = name.as_str(), project.jobs = jobs, "Deleted a project.");
    }
    Ok(written.response)
}

/// Why a project was not deleted, and what to do about it.
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
            "{users} of other projects run after jobs of {name:?} and would wait for ever; take those from `after` there first"
        )),
        DeleteError::Job(error) => field_error::save_refused(error, ""),
    }
}

/// `POST /projects/{name}/pause`
pub(crate) async fn pause(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let reason = reason(body)?;
    turn(&state, &identity, &request.0, &http, &name, Turn::Pause(reason.as_deref())).await
}

/// `POST /projects/{name}/resume`
pub(crate) async fn resume(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    name: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let NoParameters {} = body.read_or_default()?;
    turn(&state, &identity, &request.0, &http, &name, Turn::Resume).await
}

async fn turn(
    state: &State,
    identity: &Identity,
    by: &Actor,
    http: &HttpRequest,
    name: &str,
    turn: Turn<'_>,
) -> Result<HttpResponse, ApiError> {
    can_be_there(KIND, name)?;
    let tenant = identity.tenant();
    let switch = Switch { tenant, target: Target::Project(name), expected: expected(http)? };
    let written = state
        .write(identity, by, "turn_project", async |conn: &mut Conn| {
            let before = found(conn, tenant, name).await?;
            let is_change = switch.turn(conn, turn, Some(before.id), by).await?;
            let after = found(conn, tenant, name).await?;
            let etag = tag(after.updated_at);
            Ok::<_, ApiError>((Reply::ok(&show(after))?.etag(etag), is_change))
        })
        .await?;
    if written.extra == Some(true) {
        state.hint("workers", async |conn: &mut Conn| notify::dispatches_wait_again(conn).await).await;
    }
    Ok(written.response)
}

async fn found(conn: &mut Conn, tenant: TenantId, name: &str) -> Result<Kept, ApiError> {
    projects::by_name(conn, tenant, name).await?.ok_or_else(|| no_such(KIND, name))
}

/// The project of a body, which may be left out.
fn settings(name: &str, body: Body) -> Result<ProjectSettings, ApiError> {
    check_name(name, LONGEST_NAME).map_err(|message| ApiError::parameter("name", message))?;
    let spec: ProjectSpec =
        field_error::read(body.required()?, "").map_err(|one| ApiError::Refused(vec![one]))?;
    let display_name = spec.display_name.unwrap_or_else(|| name.to_owned());
    let mut mistakes = Vec::new();
    if let Err(message) = check_display_name(&display_name) {
        mistakes.push(FieldError::invalid("/display_name", message));
    }
    if spec.description.chars().count() > LONGEST_DESCRIPTION {
        let message = format!("must be no longer than {LONGEST_DESCRIPTION} characters");
        mistakes.push(FieldError::invalid("/description", message));
    }
    if !mistakes.is_empty() {
        return Err(ApiError::Refused(mistakes));
    }
    Ok(ProjectSettings { name: name.to_owned(), display_name, description: spec.description })
}

fn entry(
    tenant: TenantId,
    action: &'static str,
    before: Option<&ProjectSettings>,
    after: Option<&Kept>,
    by: &Actor,
) -> AuditEntry {
    let name = after.map(|project| &project.settings).or(before).map(|settings| settings.name.clone());
    AuditEntry {
        tenant_id: Some(tenant),
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

fn show(project: Kept) -> Project {
    Project {
        id: project.id.0,
        name: project.settings.name,
        display_name: project.settings.display_name,
        description: project.settings.description,
        is_paused: project.is_paused,
        pause_reason: project.pause_reason,
        created_at: project.created_at,
        updated_at: project.updated_at,
    }
}
