//! The health of the installation by component, and the totals of a tenant. Read only.
//!
//! `/health/detailed` queries the database; `/health` answers from memory. The detailed answer
//! contains only numbers, so this machine needs no key. Other machines need the permission to see
//! the fleet ([`crate::http::middleware`]). An unreachable database is reported, not an error.

use std::time::Duration;

use actix_web::http::StatusCode;
use actix_web::{HttpResponse, web};
use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use sched_model::{
    Conn,
    cluster::{health, overview},
};
use sched_runtime::monotonic_clock::monotonic;
use sched_wire::{Health, Metrics, MetricsQuery};

use crate::convert::health as show;
use crate::error::ApiError;
use crate::http::extract::Query;
use crate::identity::Identity;
use crate::routes::{Answer, State};

/// Longest wait for the database. Monitors give up after about ten seconds.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// `GET /health/detailed`
pub(crate) async fn detailed(state: State) -> HttpResponse {
    let result = tokio::time::timeout(LOOK_WITHIN, state.sessions.probe(state.leader_lease)).await;
    let found = result.unwrap_or_else(|_elapsed| Err(show::NO_ANSWER.to_owned()));
    let parts = show::Parts {
        found,
        pool: state.sessions.pool_status(),
        listeners: state.hub.listeners(),
        held_for: state.hub.held_for(),
        leader_lease: state.leader_lease,
        is_stopping: state.is_stopping(),
    };
    let health: Health = show::health(&parts);
    let status = match health.status {
        sched_wire::HealthState::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        sched_wire::HealthState::Ok | sched_wire::HealthState::Degraded => StatusCode::OK,
    };
    HttpResponse::build(status).json(health)
}

/// `GET /metrics` below the base path
pub(crate) async fn metrics(
    state: State,
    identity: Identity,
    Query(query): Query<MetricsQuery>,
) -> Answer<Metrics> {
    let tenant = identity.tenant();
    let hours = query.hours.unwrap_or(DEFAULT_HOURS);
    if !(1..=MOST_HOURS).contains(&hours) {
        return Err(ApiError::parameter("hours", format!("must be from 1 to {MOST_HOURS}")));
    }
    let counted = state
        .read_totals(&identity, "show_metrics", async |conn: &mut Conn| {
            let counts = overview::counts(conn, tenant, state.leader_lease).await?;
            let since = whole_minute(counts.now - TimeDelta::hours(i64::from(hours)));
            let totals = health::totals(conn, tenant, since).await?;
            Ok(show::metrics(&counts, since, totals))
        })
        .await;
    match counted {
        // A client that chose no range has nothing to correct, and tries again.
        Err(ApiError::Busy(_)) if query.hours.is_some_and(|hours| hours > 1) => {
            let message = format!("there is too much to count within {hours} hours; request fewer hours");
            Err(ApiError::parameter("hours", message))
        }
        counted => Ok(web::Json(counted?)),
    }
}

const DEFAULT_HOURS: u32 = 24;
/// Longest range of the totals: a month.
const MOST_HOURS: u32 = 744;

impl crate::database::access::Sessions {
    async fn probe(&self, lease: Duration) -> show::ProbeResult {
        let unhealthy = |error: sched_model::DbError| {
            tracing::debug!(error = error.with_causes(), "health check of the installation failed");
            show::NO_ANSWER.to_owned()
        };
        // The first query also opens the connection, if there is none.
        self.ping().await.map_err(unhealthy)?;
        let sent = monotonic();
        self.ping().await.map_err(unhealthy)?;
        let round_trip = sent.elapsed();
        let (states, misfit, health) = self
            .survey(async |conn: &mut Conn| {
                let states = sched_model::connection::migrations::status(conn).await?;
                let misfit = match sched_model::connection::migrations::check_states(&states) {
                    Ok(()) => None,
                    Err(error) => Some(error.to_string()),
                };
                Ok((states, misfit, health::load(conn, lease).await?))
            })
            .await
            .map_err(unhealthy)?;
        let version = states.iter().rfind(|state| state.is_applied).map(|state| state.version.clone());
        Ok(show::DatabaseFacts { round_trip, version, misfit, health })
    }
}

fn whole_minute(at: DateTime<Utc>) -> DateTime<Utc> {
    // Fails for years that no clock shows.
    at.duration_trunc(TimeDelta::minutes(1)).unwrap_or(at)
}
