//! Switches of a job: pausing, resuming, enabling and disabling it.
//!
//! Each is one transaction with its version, its entry in the audit log and its event. Repeating one is harmless: a job that is so
//! already is answered as it is, and nothing is written.

use actix_web::{HttpRequest, HttpResponse, web};
use sched_model::db::events::{self, NewEvent};
use sched_model::db::jobs::{self, Job, NewPause, PauseEnd, SaveError, Switch, SwitchRequest, Switched};
use sched_model::db::{Conn, audit, clock, transact};
use sched_wire::PauseRequest;
use serde_json::json;

use super::jobs::{find, no_such_job, shown};
use super::{Id, State, auditing};
use crate::dto::moment::moment;
use crate::error::ApiError;
use crate::extract::{Body, NoParameters, Query, if_match};
use crate::identity::{By, Identity};
use crate::mistake::{self, Mistake};

/// Longest reason of a pause, in characters.
const LONGEST_REASON: usize = 500;

/// The end of a pause that has none.
const NEVER: &str = "never";

/// `POST /jobs/{id-or-name}/pause`
pub(crate) async fn pause(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    let asked: PauseRequest = body.read_or_default()?;
    let refused =
        |pointer: &str, message: String| ApiError::Refused(vec![Mistake::invalid(pointer, message)]);
    if asked.reason.as_ref().is_some_and(|reason| reason.chars().count() > LONGEST_REASON) {
        return Err(refused("/reason", format!("must be no longer than {LONGEST_REASON} characters")));
    }
    let mut conn = state.database.conn().await?;
    let found = find(&mut conn, identity.tenant(), &job).await?.ok_or_else(|| no_such_job(&job))?;
    let end = match asked.until.as_deref() {
        Some(NEVER) => PauseEnd::Never,
        Some(text) => {
            let now = clock::now(&mut conn).await?;
            let at = moment(text, now, &found.settings.timezone);
            PauseEnd::At(at.map_err(|message| refused("/until", format!("{message}, or `{NEVER}`")))?)
        }
        None => PauseEnd::AsItIs,
    };
    let pause = NewPause { reason: asked.reason.as_deref(), end };
    turn(&mut conn, &identity, &request.0, &http, &found, Switch::Pause(pause)).await
}

/// `POST /jobs/{id-or-name}/resume`
pub(crate) async fn resume(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    simply(&state, &identity, &request.0, &http, &job, body, Switch::Resume).await
}

/// `POST /jobs/{id-or-name}/enable`
pub(crate) async fn enable(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    simply(&state, &identity, &request.0, &http, &job, body, Switch::Enable).await
}

/// `POST /jobs/{id-or-name}/disable`
pub(crate) async fn disable(
    state: State,
    identity: Identity,
    request: Id,
    http: HttpRequest,
    job: web::Path<String>,
    _: Query<NoParameters>,
    body: Body,
) -> Result<HttpResponse, ApiError> {
    simply(&state, &identity, &request.0, &http, &job, body, Switch::Disable).await
}

/// A switch that needs no more to be said.
async fn simply(
    state: &State,
    identity: &Identity,
    by: &By,
    http: &HttpRequest,
    job: &str,
    body: Body,
    switch: Switch<'_>,
) -> Result<HttpResponse, ApiError> {
    body.read_or_default::<Nothing>()?;
    let mut conn = state.database.conn().await?;
    let found = find(&mut conn, identity.tenant(), job).await?.ok_or_else(|| no_such_job(job))?;
    turn(&mut conn, identity, by, http, &found, switch).await
}

/// A body that says nothing.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

async fn turn(
    conn: &mut Conn,
    identity: &Identity,
    by: &By,
    http: &HttpRequest,
    found: &Job,
    switch: Switch<'_>,
) -> Result<HttpResponse, ApiError> {
    let tenant = identity.tenant();
    let asked = SwitchRequest { tenant, job: found.id, switch, version: if_match(http)?, source: &by.source };
    let (action, event_type) = match switch {
        Switch::Pause(_) => ("pause_job", events::JOB_PAUSED),
        Switch::Resume => ("resume_job", events::JOB_RESUMED),
        Switch::Enable => ("enable_job", events::JOB_ENABLED),
        Switch::Disable => ("disable_job", events::JOB_DISABLED),
    };
    let switched = transact(conn, action, async |conn: &mut Conn| {
        let switched = jobs::switch(conn, &asked).await?;
        if let Switched::Changed { before, after } = &switched {
            audit::write(conn, &[auditing::of_switched_job(tenant, action, before, after, by)]).await?;
            let payload = json!({
                "job_name": after.settings.name,
                "reason": after.state.pause_reason,
                "until": after.state.paused_until,
                "by": by.source,
            });
            let event = NewEvent {
                tenant_id: Some(tenant),
                project_id: None,
                job_id: Some(after.id),
                dispatch_id: None,
                event_type,
                payload,
            };
            events::append(conn, &[event]).await?;
        }
        Ok::<_, SaveError>(switched)
    })
    .await
    .map_err(|error| mistake::save_refused(error, ""))?;
    match switched {
        Switched::Changed { after, .. } => {
            tracing::info!(job.id = %after.id, job.name = after.settings.name, action, "Switched a job.");
            Ok(shown(conn, tenant, *after).await?)
        }
        Switched::Unchanged(job) => Ok(shown(conn, tenant, *job).await?),
        Switched::NoSuchJob => Err(no_such_job(&found.settings.name)),
        Switched::OtherVersion(found) => Err(ApiError::OtherVersion { found }),
        Switched::EndHasPassed { now } => Err(ApiError::Refused(vec![Mistake::invalid(
            "/until",
            format!("must lie in the future; it is {} now", now.to_rfc3339()),
        )])),
    }
}
