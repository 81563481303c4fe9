//! Explanations: why a job did, or did not, run, and what a dispatch waits for. Nothing is written.
//!
//! What is kept of the job is read first and the connection given back; then its past is computed anew on a thread that serves
//! nobody else, because a window may hold thousands of fire times.

use actix_web::web;
use sched_model::db::{Conn, clock, dispatches, ledger, waits};
use sched_model::domain::explain::{explain, waits::of_job as waits_of_job};
use sched_model::domain::ids::DispatchId;
use sched_wire::{DispatchExplanation, ExplainQuery, Explanation};

use super::jobs::{find, no_such_job};
use super::{Answer, State, compute};
use crate::dto::explain::{Window, refused, show, show_dispatch};
use crate::error::ApiError;
use crate::extract::{NoParameters, Query, id};
use crate::identity::Identity;

/// `GET /jobs/{id-or-name}/explain`
pub(crate) async fn of_job(
    state: State,
    identity: Identity,
    job: web::Path<String>,
    Query(query): Query<ExplainQuery>,
) -> Answer<Explanation> {
    let tenant = identity.tenant();
    let (found, window, evidence, facts) = state
        .read(&identity, "explain_job", async |conn: &mut Conn| {
            let found = find(conn, tenant, &job).await?.ok_or_else(|| no_such_job(&job))?;
            let now = clock::now(conn).await?;
            let window = Window::of(&query, now, &found.settings.timezone)?;
            let evidence = ledger::evidence(conn, tenant, &found, now, (window.from, window.to)).await?;
            let facts = waits::job_facts(conn, tenant, &found, state.leader_lease).await?;
            Ok((found, window, evidence, facts))
        })
        .await?;
    let explained = compute(move || {
        let explanation = explain(&evidence, window.from, window.to)?;
        Ok(show(&found, &window, evidence.now, explanation, &waits_of_job(&facts)))
    });
    explained.await?.map(web::Json).map_err(refused)
}

/// `GET /dispatches/{id}/explain`
pub(crate) async fn of_dispatch(
    state: State,
    identity: Identity,
    text: web::Path<String>,
    _: Query<NoParameters>,
) -> Answer<DispatchExplanation> {
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let gone = || ApiError::NotFound { kind: "dispatch", name: id.to_string() };
    let (found, dispatched, now) = state
        .read(&identity, "explain_dispatch", async |conn: &mut Conn| {
            let found = dispatches::by_id(conn, tenant, id).await?.ok_or_else(gone)?;
            let dispatched = ledger::dispatch(conn, tenant, &found).await?.ok_or_else(gone)?;
            let now = clock::now(conn).await?;
            Ok((found, dispatched, now))
        })
        .await?;
    Ok(web::Json(show_dispatch(found, dispatched, now)))
}
