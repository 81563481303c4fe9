//! Changes of the settings of a job: replace them, patch them, or roll them back.
//!
//! Each change is one transaction with its version, audit entry and event. A change without effect
//! writes none of these. After a concurrent change the new settings are computed again, unless the
//! client requires a version.

use actix_web::{HttpResponse, web};
use sched_model::definitions::functions::Change;
use sched_model::domain::ids::TenantId;
use sched_model::domain::job::JobSettings;
use sched_model::jobs::{self, Job, SaveError, SaveMode, SavedJob, Writing};
use sched_model::{Conn, DbError, PageRequest, events::append, identity::audit};
use sched_wire::RollbackRequest;
use serde_json::Value;

use super::{JobEvent, append_job_events, auditing, built_in, created, find, no_such_job, shown};
use crate::convert::merge_patch::merged;
use crate::convert::{response, spec};
use crate::database::requests::Written;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError};
use crate::http::call::Call;
use crate::http::extract::{Body, Condition};
use crate::http::reply::Reply;
use crate::identity::Actor;

/// How often a change is computed after concurrent changes.
const ATTEMPTS: usize = 5;

/// `PUT /jobs/{id-or-name}`
pub(crate) async fn put(call: Call, job: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let (tenant, condition, body) = (call.tenant(), call.condition()?, body.required()?);
    let written = call
        .write("put_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, &job).await?;
            let name = found.as_ref().map_or(job.as_str(), |found| &found.settings.name);
            let settings = named(name, body.clone(), &call.state.default_timezone)?;
            let present = found.as_ref().map_or(&settings.function, |found| &found.settings.function);
            built_in::functions(conn, &call.identity, &[present, &settings.function]).await?;
            let saved =
                jobs::save(conn, tenant, &settings, Writing::new(SaveMode::Upsert, &call.by.source)).await;
            let saved = saved.map_err(|error| field_error::save_refused(error, ""))?;
            if saved.change == Change::Created && job.parse::<uuid::Uuid>().is_ok() {
                // A job is created under a name; an unknown id is an error.
                return Err(no_such_job(&job));
            }
            condition.check("job", before(&saved).map(|version| version.to_string()).as_deref())?;
            record_change(conn, &saved, None, &call).await
        })
        .await?;
    Ok(logged(written))
}

/// `PATCH /jobs/{id-or-name}`
pub(crate) async fn patch(call: Call, job: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    let patch = body.required()?;
    if !patch.is_object() {
        return Err(ApiError::Refused(vec![FieldError::invalid(
            "",
            "must be an object of the fields to change",
        )]));
    }
    modify(&call, call.condition()?, &job, JobChange::Patch(&patch)).await
}

/// `POST /jobs/{id-or-name}/rollback`
pub(crate) async fn rollback(
    call: Call,
    job: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let request: RollbackRequest =
        field_error::read(body.required()?, "").map_err(|mistake| ApiError::Refused(vec![mistake]))?;
    modify(&call, call.condition()?, &job, JobChange::Rollback(request.version)).await
}

#[derive(Debug, Clone, Copy)]
enum JobChange<'a> {
    Patch(&'a Value),
    Rollback(i64),
}

impl JobChange<'_> {
    const fn name(self) -> &'static str {
        match self {
            Self::Patch(_) => "patch_job",
            Self::Rollback(_) => "rollback_job",
        }
    }

    /// Replaces the default action in the audit log.
    const fn action(self) -> Option<&'static str> {
        match self {
            Self::Patch(_) => None,
            Self::Rollback(_) => Some("rollback_job"),
        }
    }

    async fn settings(self, conn: &mut Conn, call: &Call, job: &Job) -> Result<JobSettings, ApiError> {
        match self {
            Self::Patch(patch) => {
                let present = serde_json::to_value(response::spec(job.settings.clone()))
                    .map_err(ApiError::Unwritten)?;
                named(&job.settings.name, merged(present, patch.clone()), &call.state.default_timezone)
            }
            Self::Rollback(version) => earlier(conn, call.tenant(), job, version).await,
        }
    }
}

async fn earlier(
    conn: &mut Conn,
    tenant: TenantId,
    job: &Job,
    version: i64,
) -> Result<JobSettings, ApiError> {
    let page = PageRequest { after: version.checked_add(1), limit: 1 };
    let found = jobs::versions::list(conn, tenant, job.id, page).await?.pop();
    let found = found.filter(|found| found.version == version).ok_or_else(|| {
        let message = format!("the job has no version {version}; it is at {}", job.state.version);
        ApiError::Refused(vec![FieldError::invalid("/version", message)])
    })?;
    let settings: JobSettings = serde_json::from_value(found.settings).map_err(|error| DbError::Corrupt {
        what: format!("version {version} of job {}", job.id),
        reason: error.to_string(),
    })?;
    let settings = JobSettings { name: job.settings.name.clone(), ..settings };
    // Rules may be stricter now than at that time.
    let mistakes: Vec<FieldError> =
        settings.check().iter().map(|error| FieldError::of_field("", error)).collect();
    if mistakes.is_empty() { Ok(settings) } else { Err(ApiError::Refused(mistakes)) }
}

async fn modify(
    call: &Call,
    condition: Condition,
    job: &str,
    how: JobChange<'_>,
) -> Result<HttpResponse, ApiError> {
    let by = &call.by;
    let tenant = call.tenant();
    let mut attempt = 1;
    loop {
        let written = call
            .write(how.name(), async |conn: &mut Conn| {
                let found = find(conn, tenant, job).await?.ok_or_else(|| no_such_job(job))?;
                condition.check("job", Some(&found.state.version.to_string()))?;
                let settings = how.settings(conn, call, &found).await?;
                built_in::functions(conn, &call.identity, &[&found.settings.function, &settings.function])
                    .await?;
                let saved = write(conn, &settings, how, by).await;
                let saved = saved.map_err(|error| field_error::save_refused(error, ""))?;
                match before(&saved) {
                    // The job was deleted after it was read, so this is another job.
                    _ if saved.job.id != found.id => return Err(no_such_job(job)),
                    Some(version) if version != found.state.version => {
                        return Err(ApiError::OtherVersion { found: version });
                    }
                    Some(_) | None => {}
                }
                record_change(conn, &saved, how.action(), call).await
            })
            .await;
        match written {
            Err(ApiError::OtherVersion { .. })
                if attempt < ATTEMPTS && !matches!(condition, Condition::Tag(_)) =>
            {
                attempt += 1;
            }
            written => return Ok(logged(written?)),
        }
    }
}

async fn write(
    conn: &mut Conn,
    settings: &JobSettings,
    how: JobChange<'_>,
    by: &Actor,
) -> Result<SavedJob, SaveError> {
    match how {
        JobChange::Patch(_) => {
            jobs::save(conn, by.tenant, settings, Writing::new(SaveMode::Upsert, &by.source)).await
        }
        JobChange::Rollback(_) => jobs::roll_back(conn, by.tenant, settings, &by.source).await,
    }
}

/// The body may omit the name, which is in the path.
fn named(name: &str, mut body: Value, timezone: &str) -> Result<JobSettings, ApiError> {
    if let Value::Object(fields) = &mut body {
        let given = fields.entry("name").or_insert_with(|| name.into());
        if given.as_str().is_some_and(|given| given != name) {
            let message = format!(
                "must be {name:?} or absent: a job keeps its name, by which files and other jobs know it"
            );
            return Err(ApiError::Refused(vec![FieldError::invalid("/name", message)]));
        }
    }
    spec::job(body, "", timezone).map_err(ApiError::Refused)
}

/// `None` for a new job.
fn before(saved: &SavedJob) -> Option<i64> {
    match saved.change {
        Change::Created => None,
        Change::Updated => Some(saved.job.state.version - 1),
        Change::Unchanged => Some(saved.job.state.version),
    }
}

async fn record_change(
    conn: &mut Conn,
    saved: &SavedJob,
    action: Option<&'static str>,
    call: &Call,
) -> Result<(Reply, Option<Job>), ApiError> {
    let (tenant, by, installation) = (call.tenant(), &call.by, call.state.defaults());
    let (entry, event_type) = match saved.change {
        Change::Unchanged => {
            return Ok((shown(conn, tenant, saved.job.clone(), installation).await?, None));
        }
        Change::Created => (auditing::of_job(saved, by), append::JOB_CREATED),
        Change::Updated => {
            let settings = (saved.before.as_ref(), Some(&saved.job.settings));
            let entry = match action {
                Some(action) => auditing::of_changed_job(action, saved.job.id, settings, by),
                None => auditing::of_job(saved, by),
            };
            (entry, append::JOB_UPDATED)
        }
    };
    audit::write(conn, &[entry]).await?;
    append_job_events(conn, &[JobEvent { event_type, job: &saved.job }], by).await?;
    let reply = match saved.change {
        Change::Created => created(saved.job.clone(), installation)?,
        Change::Updated | Change::Unchanged => shown(conn, tenant, saved.job.clone(), installation).await?,
    };
    Ok((reply, Some(saved.job.clone())))
}

fn logged(written: Written<Option<Job>>) -> HttpResponse {
    if let Some(job) = written.extra.flatten() {
        tracing::info!(job.id = %job.id, job.name = job.settings.name, job.version = job.state.version, "job written");
    }
    written.response
}
