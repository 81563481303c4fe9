//! Explanations: why a job did, or did not, run. Nothing is written.
//!
//! What is kept of the job is read first and the connection given back; then its past is computed anew on a thread that serves
//! nobody else, because a window may hold thousands of fire times.

use actix_web::web;
use sched_model::db::{clock, ledger};
use sched_model::domain::explain::explain;
use sched_wire::{ExplainQuery, Explanation};

use super::jobs::{find, no_such_job};
use super::{Answer, State, compute};
use crate::dto::explain::{Window, refused, show};
use crate::extract::Query;
use crate::identity::Identity;

/// `GET /jobs/{id-or-name}/explain`
pub(crate) async fn of_job(
    state: State,
    identity: Identity,
    job: web::Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Answer<Explanation> {
    let tenant = identity.tenant();
    let mut conn = state.database.conn().await?;
    let found = find(&mut conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
    let now = clock::now(&mut conn).await?;
    let window = Window::of(&query, now, &found.settings.timezone)?;
    let evidence = ledger::evidence(&mut conn, tenant, &found, now, (window.from, window.to)).await?;
    drop(conn);
    let explained = compute(move || {
        let explanation = explain(&evidence, window.from, window.to)?;
        Ok(show(&found, &window, evidence.now, explanation))
    });
    explained.await?.map(web::Json).map_err(refused)
}
