//! The handlers, one file per noun: take the request apart, call the database, show what it says.
//!
//! No rule is decided here and no SQL is known. A handler that writes does so in one named transaction, with its entry
//! in the audit log; hints to other daemons follow the commit and may be lost.

pub(crate) mod access;
mod built_in;
pub(crate) mod definitions;
mod etag;
pub(crate) mod jobs;
pub(crate) mod notes;
pub(crate) mod operations;
pub(crate) mod runs;
pub(crate) mod table;

use actix_web::web;
use chrono::{DateTime, Utc};
use sched_model::{Conn, connection::database_clock};

use crate::convert::moment;
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
    let now = database_clock::now(conn).await?;
    Ok((moment::parameter("since", since, now)?, moment::parameter("until", until, now)?))
}

/// Computes what may take a while on a thread that serves no requests. Work that was begun is finished even when nobody
/// waits for it any more, so it has to be bounded.
pub(crate) async fn compute<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    web::block(work).await.map_err(|_broken_off| ApiError::Broken)
}
