//! The caller: who it is, in which tenant, and what it may do.

use actix_web::web;
use sched_model::db::{Conn, tenants};
use sched_wire::Me;

use super::{Answer, State};
use crate::dto::identity::tenant;
use crate::extract::{NoParameters, Query};
use crate::identity::Identity;

/// `GET /me`
pub(crate) async fn get(state: State, identity: Identity, _: Query<NoParameters>) -> Answer<Me> {
    let id = identity.tenant();
    let own =
        state.read(&identity, "show_me", async |conn: &mut Conn| Ok(tenants::by_id(conn, id).await?)).await?;
    let known = identity.known();
    Ok(web::Json(Me {
        tenant: tenant(own),
        actor: identity.actor().to_owned(),
        user: known.email.clone(),
        role: known.role.map(|role| role.to_string()),
        api_key: known.api_key.clone(),
        permissions: known.permissions.iter().map(|permission| permission.to_string()).collect(),
    }))
}
