//! The actor of the changes of a request, as the audit log and the rows name it.

use sched_model::domain::ids::TenantId;
use sched_model::domain::run_state::Trigger;
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
    /// Whether `schedctl` sent the request, by its `User-Agent`.
    pub(crate) is_by_command: bool,
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
    /// The source of runs that the request triggers.
    pub(crate) triggered_by: Trigger,
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
        let caller = self.caller();
        let is_in_session = caller.api_key.is_none() && caller.session.is_some();
        let triggered_by =
            if is_in_session || request.is_by_command { Trigger::Manual } else { Trigger::Api };
        Actor {
            triggered_by,
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
