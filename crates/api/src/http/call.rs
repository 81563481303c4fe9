//! A request of a known caller: everything a handler needs besides path, query and body.
//!
//! The route ([`crate::http::route`]) has checked the permission and the query parameters.

use std::future::{Ready, ready};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use sched_model::Conn;
use sched_model::connection::transaction::Work;
use sched_model::definitions::resources::Expected;
use sched_model::domain::ids::TenantId;

use crate::database::requests::{Write, Written};
use crate::error::ApiError;
use crate::http::extract::{Condition, Preconditions};
use crate::http::reply::Reply;
use crate::identity::{Actor, Identity, RequestActor};
use crate::state::ApiState;

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) state: web::Data<ApiState>,
    pub(crate) identity: Identity,
    pub(crate) by: Actor,
    preconditions: Preconditions,
}

impl Call {
    pub(crate) fn tenant(&self) -> TenantId {
        self.identity.tenant()
    }

    /// The version that `If-Match` requires; `None` for any.
    pub(crate) fn if_match(&self) -> Result<Option<i64>, ApiError> {
        self.preconditions.version()
    }

    pub(crate) fn condition(&self) -> Result<Condition, ApiError> {
        self.preconditions.condition()
    }

    /// Like [`Self::condition`], for a resource whose entity tag is its version.
    pub(crate) fn expected(&self) -> Result<Expected, ApiError> {
        self.preconditions.expected()
    }

    /// [`crate::database::requests`]: one write in the tenant of the caller.
    pub(crate) async fn write<T, F>(&self, name: &'static str, work: F) -> Result<Written<T>, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<(Reply, T), ApiError>
            + Work<&'r mut Conn, Result<(Reply, T), ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        self.state.write(Write::new(name, &self.by), work).await
    }

    /// [`crate::database::requests`]: one write of data of the installation.
    ///
    /// # Errors
    /// Also when the caller is not a system operator.
    pub(crate) async fn write_installation<T, F>(
        &self,
        name: &'static str,
        work: F,
    ) -> Result<Written<T>, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<(Reply, T), ApiError>
            + Work<&'r mut Conn, Result<(Reply, T), ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        self.state.write(Write::of_installation(name, &self.by, &self.identity)?, work).await
    }
}

impl FromRequest for Call {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(read(request).ok_or(ApiError::Unauthenticated(None)))
    }
}

fn read(request: &HttpRequest) -> Option<Call> {
    let state = request.app_data::<web::Data<ApiState>>()?.clone();
    let extensions = request.extensions();
    let (identity, RequestActor(by)) =
        (extensions.get::<Identity>()?.clone(), extensions.get::<RequestActor>()?.clone());
    Some(Call { state, identity, by, preconditions: Preconditions::of(request.headers()) })
}
