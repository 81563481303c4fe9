//! Triggers that are gathered: those that arrive while a transaction of their tenant is under way go together into the next one.
//!
//! A commit waits for the disk, and each statement for a round trip, so a hundred triggers in one transaction, which is one statement, cost
//! little more than one. Nobody waits for others to come: the first goes at once, alone, and whoever comes meanwhile goes next, together. Two
//! transactions beside each other would each be half as large and cost more than they save. Each trigger is answered when the transaction that
//! has it is committed, with its own run or its own refusal, and has its own entry in the audit log; the next transaction is on its way
//! before that, so that the database does not wait for answers.
//!
//! What one of them meets is not the others' concern. A trigger whose job somebody else holds comes back undone ([`Fate::Busy`]), and so do
//! all of a transaction that is refused before its commit: each is then done by itself, in a transaction of its own, where it waits as long as
//! it has to and is told what becomes of it alone. Those that waited in vain together are told so, since each alone would wait as long. When
//! the connection breaks, or the commit fails, nobody knows what was written; that is what each is told, and nothing is tried again. Who has
//! gone by the time their trigger would be written (the client, or its time) has none. A process that dies has answered nobody whose trigger
//! it did not commit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, join};
use futures_util::stream::{FuturesUnordered, StreamExt};
use sched_model::dispatching::trigger::{self, Fate};
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::ids::{DispatchId, JobId, TenantId};
use sched_model::identity::audit::{self, AuditEntry};
use sched_model::{Conn, DbError};
use sched_runtime::exit::BoxError;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use crate::database::access::{Sessions, SharedError};
use crate::error::ApiError;
use crate::identity::{Actor, Identity};

/// Most triggers in one transaction: beyond this the work counts, and no longer the commit.
const MOST: usize = 100;
/// Longest arguments of a trigger that goes with others, as a body in bytes: a transaction of many is to stay small.
pub(crate) const LONGEST_ARGS: usize = 16 * 1024;
/// Triggers that may be on their way to the gatherer; each is a request that waits.
const ON_THEIR_WAY: usize = 1000;

/// A trigger that may go with others.
#[derive(Debug)]
pub(crate) struct Order {
    tenant: TenantId,
    job: String,
    may_run_built_in: bool,
    args: Option<Arc<Value>>,
    traceparent: String,
    by: Actor,
}

impl Order {
    /// One that `who` asks for.
    pub(crate) fn new(who: &Identity, by: &Actor, job: &str, args: Option<Arc<Value>>) -> Self {
        Self {
            tenant: who.tenant(),
            job: job.to_owned(),
            may_run_built_in: who.operates(),
            args,
            traceparent: by.trace.to_string(),
            by: by.clone(),
        }
    }

    fn as_asked(&self) -> trigger::Order<'_> {
        trigger::Order {
            job: &self.job,
            may_run_built_in: self.may_run_built_in,
            user: &self.by.source,
            args: self.args.as_deref(),
            traceparent: &self.traceparent,
            actor: &self.by.actor,
            request: &self.by.request,
            address: self.by.address.as_deref(),
        }
    }
}

type Answer = Result<Fate, Arc<ApiError>>;

/// An order, and who waits for its fate.
#[derive(Debug)]
struct Waiting {
    order: Order,
    answer: oneshot::Sender<Answer>,
}

/// Where triggers are handed in.
#[derive(Debug)]
pub(crate) struct Gathering {
    orders: mpsc::Sender<Waiting>,
}

impl Gathering {
    /// The place to hand them in, and the task that writes them.
    pub(crate) fn new(sessions: Sessions) -> (Self, Gatherer) {
        let (sender, orders) = mpsc::channel(ON_THEIR_WAY);
        (Self { orders: sender }, Gatherer { orders, sessions })
    }

    /// Does a trigger, together with others; [`Fate::Busy`] when it is to be done alone.
    ///
    /// # Errors
    /// The database cannot be reached, or it is not known whether the trigger was written.
    pub(crate) async fn trigger(&self, order: Order) -> Result<Fate, ApiError> {
        let (answer, fate) = oneshot::channel();
        // The gatherer ends after the last request, or the daemon with it.
        self.orders.send(Waiting { order, answer }).await.map_err(|_ended| ApiError::Broken)?;
        fate.await.map_err(|_ended| ApiError::Broken)?.map_err(ApiError::Shared)
    }
}

/// The tenants of which a transaction is under way, each with the triggers that wait for its end, first come, first served.
type Lines = HashMap<TenantId, Vec<Waiting>>;

/// Writes what is handed in.
#[derive(Debug)]
pub(crate) struct Gatherer {
    orders: mpsc::Receiver<Waiting>,
    sessions: Sessions,
}

impl Gatherer {
    /// Writes until `stop`, which comes after the last request.
    ///
    /// # Errors
    /// None; it is a task as others.
    pub(crate) async fn run(mut self, stop: CancellationToken) -> Result<(), BoxError> {
        let mut lines = Lines::new();
        let mut under_way: FuturesUnordered<Writing> = FuturesUnordered::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                one = self.orders.recv() => {
                    let Some(one) = one else { return Ok(()) };
                    under_way.extend(self.take(&mut lines, one));
                }
                Some((tenant, told)) = under_way.next() => {
                    // Who has come just now goes with them.
                    while let Ok(one) = self.orders.try_recv() {
                        under_way.extend(self.take(&mut lines, one));
                    }
                    let batch = lines.get_mut(&tenant).map(next).unwrap_or_default();
                    if batch.is_empty() {
                        lines.remove(&tenant);
                        told.tell();
                    } else {
                        under_way.push(self.write(tenant, batch, told));
                    }
                }
            }
        }
    }

    /// Puts a trigger into the line of its tenant, or begins to write it when nothing of that tenant is under way.
    fn take(&self, lines: &mut Lines, one: Waiting) -> Option<Writing> {
        match lines.entry(one.order.tenant) {
            Entry::Occupied(mut line) => {
                line.get_mut().push(one);
                None
            }
            Entry::Vacant(line) => {
                let tenant = *line.key();
                line.insert(Vec::new());
                Some(self.write(tenant, vec![one], Told::default()))
            }
        }
    }

    /// Writes triggers of a tenant, and tells those of its transaction `before` once this one is on its way: the database does not wait for
    /// that.
    fn write(&self, tenant: TenantId, batch: Vec<Waiting>, before: Told) -> Writing {
        let sessions = self.sessions.clone();
        async move {
            let (orders, answers): (Vec<Order>, Vec<_>) =
                batch.into_iter().map(|one| (one.order, one.answer)).unzip();
            let telling = async {
                // Meanwhile the task of the connection sends the statement.
                yield_now().await;
                before.tell();
            };
            let (fates, ()) = join(fates(&sessions, tenant, &orders), telling).await;
            (tenant, Told(answers.into_iter().zip(fates).collect()))
        }
        .boxed()
    }
}

/// A transaction under way; at its end, whose it was and who is to be told.
type Writing = BoxFuture<'static, (TenantId, Told)>;

/// Fates, each with who waits for it.
#[derive(Debug, Default)]
struct Told(Vec<(oneshot::Sender<Answer>, Answer)>);

impl Told {
    fn tell(self) {
        for (answer, fate) in self.0 {
            // Who has gone meanwhile hears as little as of any commit that was under way.
            drop(answer.send(fate));
        }
    }
}

/// The first of a line, which go now and leave it; nobody who has gone.
fn next(line: &mut Vec<Waiting>) -> Vec<Waiting> {
    line.retain(|one| !one.answer.is_closed());
    line.drain(..line.len().min(MOST)).collect()
}

/// Writes the triggers of a tenant, and says what became of each.
async fn fates(sessions: &Sessions, tenant: TenantId, orders: &[Order]) -> Vec<Answer> {
    let asked: Vec<trigger::Order<'_>> = orders.iter().map(Order::as_asked).collect();
    match sessions.trigger(tenant, &asked).await {
        Ok(Some(fates)) => return fates.into_iter().map(Ok).collect(),
        Ok(None) => {}
        Err(error) if error.is_outage() => return told_all(orders, error),
        Err(error) => return undone(orders, error),
    }
    let written = sessions.share(tenant, "trigger_jobs_by_quota", async |conn: &mut Conn| {
        let done = trigger::trigger_all(conn, tenant, Trigger::Api, &asked).await;
        let fates = done.map_err(SharedError::Undone)?;
        let entries: Vec<_> = orders
            .iter()
            .zip(&fates)
            .filter_map(|(order, fate)| match fate {
                Fate::Created(made) => {
                    Some(entry(tenant, made.job, made.dispatch, order.args.is_some(), &order.by))
                }
                _ => None,
            })
            .collect();
        audit::write(conn, &entries).await.map_err(SharedError::Undone)?;
        Ok(fates)
    });
    match written.await {
        Ok(fates) => fates.into_iter().map(Ok).collect(),
        Err(SharedError::Undone(error)) => undone(orders, error),
        Err(SharedError::Unknown(error)) => told_all(orders, error),
    }
}

/// What becomes of triggers of which the database has refused one, or did not do them in time.
fn undone(orders: &[Order], error: DbError) -> Vec<Answer> {
    // Each alone would wait as long for what they waited for together.
    if matches!(error, DbError::TimedOut(_)) {
        return told_all(orders, error);
    }
    let (cause, count) = (error.with_causes(), orders.len());
    tracing::warn!(error = cause, triggers = count, "Triggers failed together; each is tried alone.");
    orders.iter().map(|_| Ok(Fate::Busy)).collect()
}

fn told_all(orders: &[Order], error: DbError) -> Vec<Answer> {
    let error = Arc::new(ApiError::from(error));
    orders.iter().map(|_| Err(error.clone())).collect()
}

/// A trigger that made a run, as the audit log has it.
pub(crate) fn entry(
    tenant: TenantId,
    job: JobId,
    dispatch: DispatchId,
    has_own_args: bool,
    by: &Actor,
) -> AuditEntry {
    AuditEntry {
        tenant_id: Some(tenant),
        actor: by.actor.clone(),
        action: "trigger_job",
        target_type: "job",
        target_id: job.to_string(),
        before: None,
        after: Some(json!({"dispatch_id": dispatch, "has_own_args": has_own_args})),
        request_id: Some(by.request.clone()),
        address: by.address.clone(),
    }
}

#[cfg(test)]
mod tests {
    use sched_model::domain::ids::DEFAULT_TENANT;
    use sched_model::domain::trace::TraceContext;

    use super::*;
    use crate::identity::RequestActor;

    fn waiting(job: usize) -> (Waiting, oneshot::Receiver<Answer>) {
        let (answer, fate) = oneshot::channel();
        let RequestActor(by) = RequestActor::nobody("r", None, TraceContext::begin(1, 1));
        let order = Order {
            tenant: DEFAULT_TENANT,
            job: job.to_string(),
            may_run_built_in: false,
            args: None,
            traceparent: String::new(),
            by,
        };
        (Waiting { order, answer }, fate)
    }

    #[test]
    fn the_first_of_a_line_go_next_and_nobody_who_has_gone() {
        let (mut line, mut fates): (Vec<_>, Vec<_>) = (0..MOST + 10).map(waiting).unzip();
        fates.drain(2..5);
        let mut next = || super::next(&mut line).into_iter().map(|one| one.order.job).collect::<Vec<_>>();
        let first = next();
        assert_eq!((first.len(), &first[..3]), (MOST, &["0".to_owned(), "1".to_owned(), "5".to_owned()][..]));
        let rest = next();
        assert_eq!((rest.len(), rest.last()), (7, Some(&(MOST + 9).to_string())));
        assert_eq!(next(), [""; 0]);
    }
}
