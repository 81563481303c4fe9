//! Database work of a request: one transaction that reads, or one that changes and answers.
//!
//! A change, its audit event and its answer are one transaction: a process that dies at any point
//! has written nothing or all of it, and a client without an answer retries. This module decides no
//! rules and contains no SQL.
//!
//! Data of the installation has separate methods (`…_installation`), which reject all callers but
//! system operators, on every route. `reads` has the reads of requests and `changes` the writes;
//! this file has the work before a tenant is known, and the notifications after a commit.

mod changes;
mod reads;

use sched_model::connection::row_security::Scope;
use sched_model::connection::transaction::{TransactionError, Work};
use sched_model::domain::identity::Permission;
use sched_model::{Conn, DbResult};

use crate::error::ApiError;
use crate::http::route::{Needs, allowed};
use crate::identity::{BeforeTenant, Identity, TenantOfCaller};
use crate::state::ApiState;

pub(crate) use changes::{Write, Written};
pub(crate) use reads::EventScope;

/// Rejects callers that are not system operators, even if the route allows them.
fn operator(caller: &Identity) -> Result<Scope, ApiError> {
    allowed(Needs::Permission(Permission::SystemOperate), Some(caller))?;
    Ok(Scope::tenant(caller.tenant()).with_installation())
}

impl ApiState {
    /// Identifies a sender before a tenant is known. Sees only rows of the database's lookup
    /// functions.
    pub(crate) async fn recognise<T, F>(
        &self,
        _: &BeforeTenant,
        name: &'static str,
        work: F,
    ) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, ApiError>
            + Work<&'r mut Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        self.sessions.run(Scope::no_tenant().read_only(), name, work).await
    }

    /// Like [`Self::recognise`], for lookups that write: sign-in attempts are counted.
    pub(crate) async fn count<T, F>(
        &self,
        _: &BeforeTenant,
        name: &'static str,
        work: F,
    ) -> Result<T, ApiError>
    where
        T: Send,
        for<'r> F: AsyncFn(&'r mut Conn) -> Result<T, ApiError>
            + Work<&'r mut Conn, Result<T, ApiError>, Fut: Send>
            + Send
            + Sync,
    {
        self.sessions.run(Scope::no_tenant(), name, work).await
    }

    /// Writes about an identified caller, in the tenant of the caller.
    pub(crate) async fn record<F>(&self, tenant: TenantOfCaller, name: &'static str, work: F) -> DbResult<()>
    where
        for<'r> F:
            AsyncFn(&'r mut Conn) -> DbResult<()> + Work<&'r mut Conn, DbResult<()>, Fut: Send> + Send + Sync,
    {
        self.sessions.run(Scope::tenant(tenant.id()), name, work).await
    }

    /// Notifies another daemon of a committed change. The notification may be lost: the receiver
    /// also polls. Runs in no tenant and sees no rows.
    pub(crate) async fn hint<F>(&self, receiver: &'static str, work: F)
    where
        F: AsyncFn(&mut Conn) -> DbResult<()>,
    {
        let result = match self.sessions.lanes.conn().await {
            Ok(mut conn) => work(&mut conn).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            tracing::warn!(
                error = error.with_causes(),
                whom = receiver,
                "NOTIFY failed; the receiver will find the change on its next poll"
            );
        }
    }
}

impl TransactionError for ApiError {
    fn is_retryable(&self) -> bool {
        match self {
            Self::Unavailable(error) | Self::Busy(error) | Self::Internal(error) => error.is_retryable(),
            _ => false,
        }
    }

    fn is_of_read_only_server(&self) -> bool {
        matches!(self, Self::Unavailable(error) if error.is_of_read_only_server())
    }
}
