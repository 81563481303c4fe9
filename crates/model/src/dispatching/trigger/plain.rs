//! Triggers that need no room: one statement locks the jobs FOR KEY SHARE and writes everything.

use diesel::QueryResult;
use diesel_async::RunQueryDsl;

use super::super::dispatches::STANDARD_PRIORITY;
use super::lock::Names;
use super::{Created, Fate, Order, Plain};
use crate::Conn;
use crate::connection::statement::column;
use sched_domain::ids::{DispatchId, JobId, TenantId};

/// The outcomes in the order of the triggers; `None` for those that the statement leaves to the
/// ordinary way.
///
/// Writes only within a transaction that [`crate::connection::row_security::Scope::tenant`] began.
pub(super) async fn trigger(
    conn: &Conn,
    tenant: TenantId,
    orders: &[Order<'_>],
    names: &Names<'_>,
) -> QueryResult<Vec<Option<Fate>>> {
    let rows: Vec<(Option<JobId>, Option<DispatchId>, Option<String>)> = Plain {
        tenant,
        standard_priority: STANDARD_PRIORITY,
        ids: &names.ids,
        names: &names.names,
        args: &column(orders, |order| order.args),
        sources: &column(orders, |order| order.triggered_by),
        users: &column(orders, |order| order.user),
        traceparents: &column(orders, |order| order.traceparent),
        actors: &column(orders, |order| order.actor),
        requests: &column(orders, |order| order.request),
        addresses: &column(orders, |order| order.address),
    }
    .load(&mut { conn })
    .await?;
    let fate = |row| match row {
        (Some(job), Some(dispatch), Some(queue)) => {
            Some(Fate::Created(Created { job, dispatch, queue, is_queued: false }))
        }
        (None, ..) => Some(Fate::NoSuchJob),
        _ => None,
    };
    Ok(rows.into_iter().map(fate).collect())
}
