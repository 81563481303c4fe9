//! The actor of the changes of a request, as the audit log and the rows name it.

use sched_model::domain::ids::TenantId;
use sched_model::domain::trace::TraceContext;

use super::caller::Identity;
use crate::http::idempotency::IdempotentRequest;

/// The parts of a request that do not depend on its caller.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) id: String,
    pub(crate) address: Option<String>,
    /// Effects of the request belong to this span.
    pub(crate) trace: TraceContext,
}

#[derive(Debug, Clone)]
pub(crate) struct Actor {
    pub(crate) tenant: TenantId,
    /// Name in the audit log.
    pub(crate) actor: String,
    /// Name in the row itself.
    pub(crate) source: String,
    /// Id of the request.
    pub(crate) request: String,
    pub(crate) address: Option<String>,
    /// Effects of the request belong to this span.
    pub(crate) trace: TraceContext,
    /// Set for a request with an idempotency key.
    pub(crate) once: Option<IdempotentRequest>,
}

impl Actor {
    pub(crate) fn key(&self) -> Option<&str> {
        self.once.as_ref().map(IdempotentRequest::key)
    }
}

impl Identity {
    pub(crate) fn signs(&self, request: RequestContext, once: Option<IdempotentRequest>) -> Actor {
        Actor {
            tenant: self.tenant(),
            actor: self.actor().to_owned(),
            source: self.source().to_owned(),
            request: request.id,
            address: request.address,
            trace: request.trace,
            once,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct RequestActor(pub(crate) Actor);
