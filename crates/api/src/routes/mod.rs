//! The handlers, one file per noun: take the request apart, call the database, show what it says.
//!
//! No rule is decided here and no SQL is known. A handler that writes does so in one named transaction, with its entry
//! in the audit log; hints to other daemons follow the commit and may be lost.

pub(crate) mod api_keys;
pub(crate) mod apply;
pub(crate) mod audit_events;
mod auditing;
mod built_in;
pub(crate) mod calendars;
pub(crate) mod cancellations;
pub(crate) mod dead_letters;
pub(crate) mod dispatches;
pub(crate) mod drains;
mod event_list;
pub(crate) mod event_socket;
pub(crate) mod events;
pub(crate) mod executions;
pub(crate) mod explanations;
pub(crate) mod export;
pub(crate) mod fleet;
pub(crate) mod functions;
pub(crate) mod health;
pub(crate) mod job_types;
pub(crate) mod jobs;
pub(crate) mod logs;
pub(crate) mod maintenance;
pub(crate) mod me;
pub(crate) mod memberships;
mod notes;
pub(crate) mod notifications;
pub(crate) mod previews;
pub(crate) mod projects;
pub(crate) mod queue_switches;
pub(crate) mod queues;
mod resources;
pub(crate) mod retries;
pub(crate) mod secrets;
pub(crate) mod sessions;
pub(crate) mod switches;
pub(crate) mod templates;
pub(crate) mod tenancy;
pub(crate) mod tenants;
pub(crate) mod triggers;
pub(crate) mod users;

use actix_web::web;
use chrono::{DateTime, Utc};
use sched_model::db::{Conn, clock};

use crate::dto::moment;
use crate::error::ApiError;
use crate::identity::Signed;
use crate::state::ApiState;

/// What every handler is given of what requests share.
type State = web::Data<ApiState>;
/// On whose behalf, and under which id, the request changes things.
type Id = web::ReqData<Signed>;
/// An answer in JSON.
type Answer<T> = Result<web::Json<T>, ApiError>;

/// What is between `since` and `until`, by the database's clock where they are told from now.
async fn window(
    conn: &Conn,
    since: Option<&str>,
    until: Option<&str>,
) -> Result<(Option<DateTime<Utc>>, Option<DateTime<Utc>>), ApiError> {
    if since.is_none() && until.is_none() {
        return Ok((None, None));
    }
    let now = clock::now(conn).await?;
    Ok((moment::parameter("since", since, now)?, moment::parameter("until", until, now)?))
}

/// Computes what may take a while on a thread that serves no requests. Work that was begun is finished even when nobody
/// waits for it any more, so it has to be bounded.
pub(crate) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    web::block(work).await.map_err(|_broken_off| ApiError::Broken)
}
