//! The actor of the changes of a request, as the audit log and the rows name it.

use sched_model::domain::ids::TenantId;
use sched_model::domain::trace::TraceContext;

use super::caller::Identity;
use crate::http::idempotency::IdempotentRequest;

/// The parts of a request that do not depend on its caller.
#[derive(Debug, Clone)]
pub(crate) struct RequestContext {
    pub(crate) id: String,
    /// Network address of the client.
    pub(crate) address: Option<String>,
    /// Span of the request: effects of the request belong to it.
    pub(crate) trace: TraceContext,
}

/// The actor of a change.
#[derive(Debug, Clone)]
pub(crate) struct Actor {
    /// The tenant in which the request acts.
    pub(crate) tenant: TenantId,
    /// Name in the audit log.
    pub(crate) actor: String,
    /// Name in the row itself.
    pub(crate) source: String,
    /// Id of the request.
    pub(crate) request: String,
    /// Network address of the client.
    pub(crate) address: Option<String>,
    /// Span of the request: effects of the request belong to it.
    pub(crate) trace: TraceContext,
    /// Set for a request with an idempotency key.
    pub(crate) once: Option<IdempotentRequest>,
}

impl Actor {
    /// The idempotency key of the request.
    pub(crate) fn key(&self) -> Option<&str> {
        self.once.as_ref().map(IdempotentRequest::key)
    }
}

impl Identity {
    /// The actor of the changes of a request.
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

/// The actor as a request extension.
#[derive(Debug, Clone)]
pub(crate) struct RequestActor(pub(crate) Actor);
