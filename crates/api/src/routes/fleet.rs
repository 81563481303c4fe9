//! The processes of the installation, and its state at a glance.

use actix_web::web;
use sched_model::db::{instances, overview, workers};
use sched_wire::{Page, SchedulerInstance, Status, Worker};

use super::{Answer, State};
use crate::dto::show;
use crate::extract::{NoParameters, Query};
use crate::page::whole;

/// `GET /workers`
pub(crate) async fn workers(state: State, _: Query<NoParameters>) -> Answer<Page<Worker>> {
    state.tenant()?;
    let mut conn = state.database.conn().await?;
    Ok(web::Json(whole(workers::list(&mut conn).await?, show::worker)))
}

/// `GET /scheduler-instances`
pub(crate) async fn scheduler_instances(
    state: State,
    _: Query<NoParameters>,
) -> Answer<Page<SchedulerInstance>> {
    state.tenant()?;
    let mut conn = state.database.conn().await?;
    Ok(web::Json(whole(instances::list(&mut conn).await?, show::instance)))
}

/// `GET /status`
pub(crate) async fn status(state: State, _: Query<NoParameters>) -> Answer<Status> {
    let tenant = state.tenant()?;
    let mut conn = state.database.conn().await?;
    let counts = overview::counts(&mut conn, tenant).await?;
    let waiting = overview::waiting(&mut conn, tenant).await?;
    Ok(web::Json(show::status(counts, waiting)))
}
