//! Switches of a job: pause, resume, enable and disable it.
//!
//! Each is one transaction with its version, audit entry and event. A repetition writes nothing.

use actix_web::{HttpResponse, web};
use sched_model::domain::ids::TenantId;
use sched_model::events::append::{self, NewEvent};
use sched_model::jobs::{self, Job, NewPause, PauseEnd, Switch, SwitchRequest, Switched};
use sched_model::{Conn, connection::database_clock, identity::audit};
use sched_wire::PauseRequest;
use serde_json::json;

use crate::convert::moment::moment;
use crate::error::ApiError;
use crate::error::field_error::{self, FieldError};
use crate::http::call::Call;
use crate::http::extract::Body;
use crate::identity::Actor;
use crate::routes::jobs::{find, no_such_job, shown};
use crate::routes::{built_in, operations::auditing};

/// In characters.
const LONGEST_REASON: usize = 500;

const NEVER: &str = "never";

pub(in crate::routes) async fn pause(call: &Call, job: &str, body: Body) -> Result<HttpResponse, ApiError> {
    let request: PauseRequest = body.read_or_default()?;
    if request.reason.as_ref().is_some_and(|reason| reason.chars().count() > LONGEST_REASON) {
        return Err(refused("/reason", format!("must be no longer than {LONGEST_REASON} characters")));
    }
    let command = SwitchCommand::Pause { reason: request.reason.as_deref(), until: request.until.as_deref() };
    switch_job(call, job, command).await
}

pub(in crate::routes) async fn resume(call: &Call, job: &str, body: Body) -> Result<HttpResponse, ApiError> {
    switch_with_empty_body(call, job, body, SwitchCommand::Resume).await
}

/// `POST /jobs/{id-or-name}/enable`
pub(crate) async fn enable(call: Call, job: web::Path<String>, body: Body) -> Result<HttpResponse, ApiError> {
    switch_with_empty_body(&call, &job, body, SwitchCommand::Enable).await
}

/// `POST /jobs/{id-or-name}/disable`
pub(crate) async fn disable(
    call: Call,
    job: web::Path<String>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    switch_with_empty_body(&call, &job, body, SwitchCommand::Disable).await
}

async fn switch_with_empty_body(
    call: &Call,
    job: &str,
    body: Body,
    command: SwitchCommand<'_>,
) -> Result<HttpResponse, ApiError> {
    body.read_or_default::<EmptyBody>()?;
    switch_job(call, job, command).await
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyBody {}

#[derive(Debug, Clone, Copy)]
enum SwitchCommand<'a> {
    Pause { reason: Option<&'a str>, until: Option<&'a str> },
    Resume,
    Enable,
    Disable,
}

impl<'a> SwitchCommand<'a> {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Pause { .. } => ("pause_job", append::JOB_PAUSED),
            Self::Resume => ("resume_job", append::JOB_RESUMED),
            Self::Enable => ("enable_job", append::JOB_ENABLED),
            Self::Disable => ("disable_job", append::JOB_DISABLED),
        }
    }

    async fn resolve(self, conn: &mut Conn, job: &Job) -> Result<Switch<'a>, ApiError> {
        let (reason, until) = match self {
            Self::Pause { reason, until } => (reason, until),
            Self::Resume => return Ok(Switch::Resume),
            Self::Enable => return Ok(Switch::Enable),
            Self::Disable => return Ok(Switch::Disable),
        };
        let end = match until {
            Some(NEVER) => PauseEnd::Never,
            Some(text) => {
                let at = moment(text, database_clock::now(conn).await?, &job.settings.timezone);
                PauseEnd::At(at.map_err(|message| refused("/until", format!("{message}, or `{NEVER}`")))?)
            }
            None => PauseEnd::AsItIs,
        };
        Ok(Switch::Pause(NewPause { reason, end }))
    }
}

fn refused(pointer: &str, message: String) -> ApiError {
    ApiError::Refused(vec![FieldError::invalid(pointer, message)])
}

async fn switch_job(call: &Call, job: &str, command: SwitchCommand<'_>) -> Result<HttpResponse, ApiError> {
    let by = &call.by;
    let (tenant, version, (action, event_type)) = (call.tenant(), call.if_match()?, command.names());
    let written = call
        .write(action, async |conn: &mut Conn| {
            let found = find(conn, tenant, job).await?.ok_or_else(|| no_such_job(job))?;
            built_in::functions(conn, &call.identity, &[&found.settings.function]).await?;
            let switch = command.resolve(conn, &found).await?;
            let request = SwitchRequest { tenant, job: found.id, switch, version, source: &by.source };
            let switched =
                jobs::switch(conn, &request).await.map_err(|error| field_error::save_refused(error, ""))?;
            match switched {
                Switched::Changed { before, after } => {
                    audit::write(conn, &[auditing::of_switched_job(action, &before, &after, by)]).await?;
                    append::append(conn, &[event(tenant, event_type, &after, by)]).await?;
                    let id = after.id;
                    Ok((shown(conn, tenant, *after, call.state.defaults()).await?, Some(id)))
                }
                Switched::Unchanged(job) => {
                    Ok((shown(conn, tenant, *job, call.state.defaults()).await?, None))
                }
                Switched::NoSuchJob => Err(no_such_job(&found.settings.name)),
                Switched::OtherVersion(found) => Err(ApiError::OtherVersion { found }),
                Switched::EndHasPassed { now } => {
                    let message =
                        format!("must lie in the future; it is {} now", sched_wire::instant_text(now));
                    Err(refused("/until", message))
                }
            }
        })
        .await?;
    if let Some(Some(id)) = written.extra {
        tracing::info!(job.id = %id, action, "job switched");
    }
    Ok(written.response)
}

fn event(tenant: TenantId, event_type: &'static str, after: &Job, by: &Actor) -> NewEvent {
    NewEvent {
        tenant_id: Some(tenant),
        project_id: None,
        job_id: Some(after.id),
        dispatch_id: None,
        event_type,
        payload: json!({
            "job_name": after.settings.name,
            "reason": after.state.pause_reason,
            "until": after.state.paused_until,
            "by": by.source,
        }),
    }
}
