//! Task functions: listing. They are written by [`super::apply`].

use actix_web::web;
use sched_model::db::{Conn, functions};
use sched_wire::{Function, Page, PageQuery};

use super::{Answer, State};
use crate::dto::show;
use crate::extract::Query;
use crate::identity::Identity;
use crate::page::Limit;

/// `GET /task-functions`
pub(crate) async fn list(
    state: State,
    identity: Identity,
    Query(query): Query<PageQuery>,
) -> Answer<Page<Function>> {
    let (tenant, limit) = (identity.tenant(), Limit::new(query.limit)?);
    let rows = state
        .read(&identity, "list_functions", async |conn: &mut Conn| {
            Ok(functions::list(conn, tenant, query.cursor.as_deref(), limit.rows()).await?)
        })
        .await?;
    Ok(web::Json(limit.page(rows, |function| function.settings.name.clone(), show::function)))
}
