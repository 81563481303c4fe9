//! Explanations: why a job ran or did not run, and why a run waits. Read only.
//!
//! Rows are read first, and the connection is returned. Then a separate thread computes the past,
//! because a window may contain thousands of fire times.

use actix_web::web;
use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::explain::{ExplainError, explain, waits::of_job as waits_of_job};
use sched_model::domain::ids::DispatchId;
use sched_model::explain::history::{self, EvidenceRequest};
use sched_model::jobs::Job;
use sched_model::{Conn, connection::database_clock, dispatching::dispatches, explain::blockers};
use sched_wire::{ExplainQuery, Explanation, NearestFire, RunExplanation};

use crate::convert::explain::{Window, nearest, outermost, refused, show, show_dispatch};
use crate::error::ApiError;
use crate::http::extract::{Query, id};
use crate::identity::Identity;
use crate::routes::jobs::{find, no_such_job};
use crate::routes::{Answer, State, compute};

/// First and longest distance of the search for a fire time. A leap day may be eight years away.
const NEAR: TimeDelta = TimeDelta::minutes(2);
const FAR: TimeDelta = TimeDelta::days(8 * 366);
/// Most searches. Each looks twelve times as far as the last, or half as far after too many fire
/// times.
const LOOKS: usize = 40;

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
            let now = database_clock::now(conn).await?;
            let window = Window::of(&query, now, &found.settings.timezone)?;
            let request = EvidenceRequest { job: &found, now, from: window.from, to: window.to };
            let evidence = history::evidence(conn, tenant, request).await?;
            let facts = blockers::job_facts(conn, tenant, &found, state.leader_lease).await?;
            Ok((found, window, evidence, facts))
        })
        .await?;
    let job = found.clone();
    let explained = compute(move || {
        let explanation = explain(&evidence, window.from, window.to)?;
        Ok(show(&found, &window, explanation, &waits_of_job(&facts)))
    });
    let mut explained = explained.await?.map_err(refused)?;
    if window.is_instant && explained.summary.fire_times == 0 {
        let around = NearestFireSearch { state: &state, identity: &identity, job: &job, now: explained.now };
        let before = around.find(window.from, Side::Before).await?;
        let after = around.find(window.to, Side::After).await?;
        explained.nearest = Some(nearest(window.from, before, after));
    }
    Ok(web::Json(explained))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

struct NearestFireSearch<'a> {
    state: &'a State,
    identity: &'a Identity,
    job: &'a Job,
    now: DateTime<Utc>,
}

impl NearestFireSearch<'_> {
    /// A frequent schedule needs a short window only; a rare one is cheap in a long window.
    async fn find(&self, at: DateTime<Utc>, side: Side) -> Result<Option<NearestFire>, ApiError> {
        let (mut empty, mut reach) = (TimeDelta::zero(), NEAR);
        for _ in 0..LOOKS {
            let edges = match side {
                Side::Before => (at.checked_sub_signed(reach), at.checked_sub_signed(empty)),
                Side::After => (at.checked_add_signed(empty), at.checked_add_signed(reach)),
            };
            let (Some(from), Some(to)) = edges else { return Ok(None) };
            if side == Side::Before && to <= self.job.state.created_at {
                return Ok(None);
            }
            match self.search(from, to, side).await? {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) if reach >= FAR => return Ok(None),
                Ok(None) => (empty, reach) = (reach, (reach * 12).min(FAR)),
                Err(ExplainError::TooMany) => reach = empty + (reach - empty) / 2,
                Err(error @ ExplainError::NoWindow) => return Err(refused(error)),
            }
        }
        Ok(None)
    }

    async fn search(
        &self,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        side: Side,
    ) -> Result<Result<Option<NearestFire>, ExplainError>, ApiError> {
        let evidence = self
            .state
            .read(self.identity, "explain_around", async |conn: &mut Conn| {
                let request = EvidenceRequest { job: self.job, now: self.now, from, to };
                Ok(history::evidence(conn, self.identity.tenant(), request).await?)
            })
            .await?;
        compute(move || {
            explain(&evidence, from, to).map(|explanation| outermost(explanation, side == Side::Before))
        })
        .await
    }
}

/// `GET /runs/{id}/explain`
pub(crate) async fn of_dispatch(
    state: State,
    identity: Identity,
    text: web::Path<String>,
) -> Answer<RunExplanation> {
    let (tenant, id) = (identity.tenant(), DispatchId(id(&text)?));
    let gone = || ApiError::NotFound { kind: "run", name: id.to_string() };
    let (found, dispatched, now) = state
        .read(&identity, "explain_dispatch", async |conn: &mut Conn| {
            let found = dispatches::by_id(conn, tenant, id).await?.ok_or_else(gone)?;
            let dispatched = history::dispatch(conn, tenant, &found).await?.ok_or_else(gone)?;
            let now = database_clock::now(conn).await?;
            Ok((found, dispatched, now))
        })
        .await?;
    Ok(web::Json(show_dispatch(found, dispatched, now)))
}
