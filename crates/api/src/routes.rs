//! The handlers, one file per noun: they read the request, call the database and convert the
//! answer.
//!
//! They decide no rules and contain no SQL. A handler writes in one named transaction, together
//! with the audit event. Notifications to other daemons follow the commit and may be lost.

pub(crate) mod access;
mod built_in;
pub(crate) mod definitions;
mod etag;
pub(crate) mod jobs;
mod named_resource;
pub(crate) mod notes;
pub(crate) mod operations;
pub(crate) mod pauses;
pub(crate) mod runs;
pub(crate) mod table;

use actix_web::web;
use chrono::{DateTime, Utc};
use sched_model::{Conn, connection::database_clock};

use crate::convert::moment;
use crate::error::ApiError;
use crate::state::ApiState;

type State = web::Data<ApiState>;
type Answer<T> = Result<web::Json<T>, ApiError>;

async fn window(
    conn: &Conn,
    since: Option<&str>,
    until: Option<&str>,
) -> Result<(Option<DateTime<Utc>>, Option<DateTime<Utc>>), ApiError> {
    if since.is_none() && until.is_none() {
        return Ok((None, None));
    }
    let now = database_clock::now(conn).await?;
    Ok((moment::parameter("since", since, now)?, moment::parameter("until", until, now)?))
}

/// Runs a long computation outside the serving threads. It runs to its end even if the client
/// disconnects, so it must be bounded.
pub(crate) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    web::block(work).await.map_err(|_broken_off| ApiError::Broken)
}
