//! Templates: list, show, write and delete them, and create jobs from them.
//!
//! A write replaces the whole template. A job from a template is written in one transaction with
//! its version, audit entry, event and a note of its template. Later changes of the template do not
//! change the job.

use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::definitions::templates::{self, SavedTemplate, TemplateRecord, TemplateSettings};
use sched_model::domain::ids::TenantId;
use sched_model::events::append::NewEvent;
use sched_model::identity::audit::AuditEntry;
use sched_model::jobs::{self, Job, SaveMode, Writing};
use sched_model::{Conn, DbResult, events::append, identity::audit};
use sched_wire::{BASE_PATH, InstantiateRequest, JobSpec, Page, PageQuery, Template};
use serde_json::{Value, json};

use crate::convert::template::{TemplateInstance, read_template, show, spec_of};
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError, Reason};
use crate::http::call::Call;
use crate::http::extract::{Body, Query};
use crate::http::pagination::Pages;
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity};
use crate::routes::etag::version_tag;
use crate::routes::named_resource::{can_be_there, event, named, no_such};
use crate::routes::notes::Notes;
use crate::routes::operations::auditing::plain;
use crate::routes::{Answer, State, built_in, jobs as job_routes, operations::auditing};

const KIND: &str = "template";

/// `GET /templates`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Template>> {
    let tenant = identity.tenant();
    let pages = Pages::of(&"templates", query.limit, query.cursor.as_deref())?;
    let rows = state
        .read(&identity, "list_templates", async |conn: &mut Conn| {
            Ok(templates::list(conn, tenant, pages.after(), pages.rows()).await?)
        })
        .await?;
    let page = pages.page(rows, |template| template.name.clone(), show);
    let items = page.items.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(web::Json(Page {
        items,
        next_cursor: page.next_cursor,
        total: page.total,
        total_is_at_least: page.total_is_at_least,
        searched_until: page.searched_until,
    }))
}

/// `GET /templates/{name}`
pub(crate) async fn get(
    state: State,
    identity: Identity,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "show_template", async |conn: &mut Conn| found(conn, tenant, &name).await)
        .await?;
    let tag = version_tag(found.version);
    Ok(Reply::ok(&show(found)?)?.etag(tag).into_response())
}

/// `PUT /templates/{name}`
pub(crate) async fn put(call: Call, name: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let (condition, by) = (call.condition()?, &call.by);
    let body = named(&name, body.required()?)?;
    let settings = read_template(body, "", &call.state.default_timezone).map_err(ApiError::Refused)?;
    let written = call
        .write("put_template", async |conn: &mut Conn| {
            let mut notes = Notes::default();
            let saved = write(conn, &settings, by, &mut notes).await?;
            let before = saved.version_before().map(|version| version.to_string());
            condition.check(KIND, before.as_deref())?;
            notes.write(conn).await?;
            let (change, version) = (saved.change, saved.template.version);
            let reply = match change {
                Change::Created => {
                    let location = format!("{BASE_PATH}/templates/{}", settings.name);
                    Reply::created(&show(saved.template)?)?.location(location)
                }
                Change::Updated | Change::Unchanged => Reply::ok(&show(saved.template)?)?,
            };
            Ok::<_, ApiError>((reply.etag(version_tag(version)), change))
        })
        .await?;
    if written.extra.is_some_and(|change| change != Change::Unchanged) {
        tracing::info!(template.name = settings.name, "template written");
    }
    Ok(written.response)
}

/// `DELETE /templates/{name}`
pub(crate) async fn delete(call: Call, name: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let (tenant, condition, by) = (call.tenant(), call.condition()?, &call.by);
    can_be_there(KIND, &name)?;
    let written = call
        .write("delete_template", async |conn: &mut Conn| {
            let template =
                templates::delete(conn, tenant, &name).await?.ok_or_else(|| no_such(KIND, &name))?;
            condition.check(KIND, Some(&template.version.to_string()))?;
            let before = template.settings();
            audit::write(conn, &[entry("delete_template", Some(&before), None, by)]).await?;
            append::append(conn, &[template_event(append::TEMPLATE_DELETED, &template, by)]).await?;
            Ok::<_, ApiError>((Reply::no_content(), ()))
        })
        .await?;
    if written.extra.is_some() {
        tracing::info!(template.name = name.as_str(), "template deleted");
    }
    Ok(written.response)
}

/// `POST /templates/{name}/render`
pub(crate) async fn render(
    state: State,
    identity: Identity,
    name: web::Path<String>,
    body: Body,
) -> Answer<JobSpec> {
    let request: InstantiateRequest = body.read_or_default()?;
    let tenant = identity.tenant();
    can_be_there(KIND, &name)?;
    let found = state
        .read(&identity, "render_template", async |conn: &mut Conn| found(conn, tenant, &name).await)
        .await?;
    Ok(web::Json(spec_of(TemplateInstance::of(&found, &request, &state.default_timezone)?)))
}

/// `POST /templates/{name}/instantiate`
pub(crate) async fn instantiate(
    call: Call,
    name: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let request: InstantiateRequest = body.read_or_default()?;
    let version = call.if_match()?;
    can_be_there(KIND, &name)?;
    let written = call
        .write("instantiate_template", async |conn: &mut Conn| {
            let template = found(conn, call.tenant(), &name).await?;
            // The path names the template, so the tag is the template's.
            if version.is_some_and(|version| version != template.version) {
                return Err(ApiError::OtherVersion { found: template.version });
            }
            let instance = TemplateInstance::of(&template, &request, &call.state.default_timezone)?;
            create_job(conn, &call, &instance, request.replace).await
        })
        .await?;
    if let Some((id, job)) = written.extra {
        tracing::info!(job.id = %id, job.name = job, template.name = name.as_str(), "job created from a template");
    }
    Ok(written.response)
}

async fn create_job(
    conn: &mut Conn,
    call: &Call,
    instance: &TemplateInstance,
    replaces: bool,
) -> Result<(Reply, (String, String)), ApiError> {
    let (tenant, by, settings) = (call.tenant(), &call.by, &instance.settings);
    let mut functions = vec![settings.function.as_str()];
    let present = jobs::by_name(conn, tenant, &settings.name).await?;
    functions.extend(present.as_ref().map(|job| job.settings.function.as_str()));
    built_in::functions(conn, &call.identity, &functions).await?;
    let mode = if replaces { SaveMode::Upsert } else { SaveMode::Create };
    let saved = jobs::save(conn, tenant, settings, Writing::new(mode, &by.source))
        .await
        .map_err(|error| instance.refused(field_error::save_refused(error, "")))?;
    let before = saved.job.state.made_from.as_ref().and_then(|kept| kept.get("template")?.as_str());
    if saved.change != Change::Created && before != Some(&*instance.made_from.template) {
        // A rejected request stores nothing.
        return Err(instance.refused(name_taken(&saved.job, &instance.made_from.template)));
    }
    let is_news = templates::store_origin(conn, tenant, saved.job.id, &instance.made_from).await?;
    if saved.change != Change::Unchanged || is_news {
        let mut entry = auditing::of_job(&saved, by);
        if let Some(Value::Object(after)) = &mut entry.after {
            after.insert("made_from".to_owned(), plain(&instance.made_from));
        }
        audit::write(conn, &[entry]).await?;
    }
    let event_type = match saved.change {
        Change::Created => Some(append::JOB_CREATED),
        Change::Updated => Some(append::JOB_UPDATED),
        Change::Unchanged => None,
    };
    if let Some(event_type) = event_type {
        let job_event = job_routes::JobEvent { event_type, job: &saved.job };
        job_routes::append_job_events(conn, &[job_event], by).await?;
    }
    let done = (saved.job.id.to_string(), saved.job.settings.name.clone());
    let job = Job {
        state: jobs::JobState { made_from: Some(plain(&instance.made_from)), ..saved.job.state },
        ..saved.job
    };
    let reply = match saved.change {
        Change::Created => job_routes::created(job, call.state.defaults())?,
        Change::Updated | Change::Unchanged => {
            job_routes::shown(conn, tenant, job, call.state.defaults()).await?
        }
    };
    Ok((reply, done))
}

fn name_taken(job: &Job, template: &str) -> ApiError {
    let message = format!(
        "a job named {:?} exists already and was not created from the template {template:?}; delete it first, or choose another name",
        job.settings.name
    );
    ApiError::Refused(vec![FieldError {
        reason: Reason::AlreadyExists,
        pointer: "/name".to_owned(),
        message,
    }])
}

pub(crate) async fn write(
    conn: &mut Conn,
    settings: &TemplateSettings,
    by: &Actor,
    notes: &mut Notes,
) -> DbResult<SavedTemplate> {
    let saved = templates::save(conn, by.tenant, settings, &by.source).await?;
    let (action, event_type) = match saved.change {
        Change::Unchanged => return Ok(saved),
        Change::Created => ("create_template", append::TEMPLATE_CREATED),
        Change::Updated => ("update_template", append::TEMPLATE_UPDATED),
    };
    notes.entries.push(entry(action, saved.before.as_ref(), Some(settings), by));
    notes.events.push(template_event(event_type, &saved.template, by));
    Ok(saved)
}

fn template_event(event_type: &'static str, template: &TemplateRecord, by: &Actor) -> NewEvent {
    let payload = json!({"name": template.name, "version": template.version, "by": by.source});
    event(by.tenant, None, event_type, payload)
}

fn entry(
    action: &'static str,
    before: Option<&TemplateSettings>,
    after: Option<&TemplateSettings>,
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(by.tenant),
        actor: by.actor.clone(),
        action,
        target_type: "template",
        target_id: before.or(after).map(|settings| settings.name.clone()).unwrap_or_default(),
        before: before.map(plain),
        after: after.map(plain),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

async fn found(conn: &mut Conn, tenant: TenantId, name: &str) -> Result<TemplateRecord, ApiError> {
    templates::by_name(conn, tenant, name).await?.ok_or_else(|| no_such(KIND, name))
}
