//! Batches concurrent triggers of a tenant into shared transactions.
//!
//! The costs of a transaction are the disk flush of its commit and its round trips, so a hundred
//! triggers cost little more than one. The first trigger starts a transaction at once; triggers
//! that arrive meanwhile share the next one. A second concurrent transaction of a tenant would cost
//! more than it saves. Each trigger is answered after the commit of its transaction, with its own
//! run or rejection, and has its own audit entry. The next transaction is sent before these
//! answers, so PostgreSQL does not wait for them.
//!
//! Triggers do not affect each other:
//!
//! - A trigger whose job is locked against triggers returns without an outcome, and so do all
//!   triggers of a transaction that fails before its commit. The route then runs each in its own
//!   transaction, where it waits for the lock.
//! - If a batch times out, every trigger gets that error; retrying one by one would wait just as
//!   long.
//! - If the connection breaks or the commit fails, the outcome is unknown. Every trigger gets that
//!   answer, and nothing is retried.
//! - A trigger whose client has left, or whose time is over, is not written.
//! - A process that dies has answered no trigger that it did not commit.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt, join};
use futures_util::stream::{FuturesUnordered, StreamExt};
use sched_model::DbError;
use sched_model::dispatching::trigger::{self, Fate, TriggeredBatch};
use sched_model::domain::ids::TenantId;
use sched_runtime::exit::BoxError;
use sched_runtime::monotonic_clock::monotonic;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio_util::sync::CancellationToken;

use crate::database::access::Sessions;
use crate::database::worker_notifier::WorkerNotifier;
use crate::error::ApiError;
use crate::identity::{actor::Actor, caller::Identity};

/// Limit of triggers in one transaction. Beyond it the work costs more than the commit.
const MOST: usize = 100;
/// Largest body of a trigger in a batch, in bytes: a shared transaction stays small.
pub(crate) const LONGEST_ARGS: usize = 16 * 1024;
/// Capacity of the channel to the batcher; each entry is a waiting request.
const ON_THEIR_WAY: usize = 1000;

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
    pub(crate) fn new(caller: &Identity, by: &Actor, job: &str, args: Option<Arc<Value>>) -> Self {
        Self {
            tenant: caller.tenant(),
            job: job.to_owned(),
            may_run_built_in: caller.operates(),
            args,
            traceparent: by.trace.to_string(),
            by: by.clone(),
        }
    }

    fn as_order(&self) -> trigger::Order<'_> {
        trigger::Order {
            job: &self.job,
            may_run_built_in: self.may_run_built_in,
            triggered_by: self.by.triggered_by,
            user: &self.by.source,
            args: self.args.as_deref(),
            traceparent: Some(&self.traceparent),
            actor: &self.by.actor,
            request: &self.by.request,
            address: self.by.address.as_deref(),
        }
    }
}

/// The outcome of a trigger in a batch.
#[derive(Debug)]
pub(crate) struct BatchedFate {
    /// `None` if the trigger needs its own transaction.
    pub(crate) fate: Option<Fate>,
    /// Whether the workers were notified of the runs of the batch.
    pub(crate) is_notified: bool,
}

type Answer = Result<BatchedFate, Arc<ApiError>>;

#[derive(Debug)]
struct Waiting {
    order: Order,
    answer: oneshot::Sender<Answer>,
}

#[derive(Debug)]
pub(crate) struct TriggerBatcher {
    orders: mpsc::Sender<Waiting>,
}

impl TriggerBatcher {
    pub(crate) fn new(sessions: Sessions, hints: Arc<WorkerNotifier>) -> (Self, BatchWriter) {
        let (sender, orders) = mpsc::channel(ON_THEIR_WAY);
        (Self { orders: sender }, BatchWriter { orders, sessions, hints })
    }

    pub(crate) async fn trigger(&self, order: Order) -> Result<BatchedFate, ApiError> {
        let (answer, fate) = oneshot::channel();
        // The batcher ends after the last request, or with the daemon.
        self.orders.send(Waiting { order, answer }).await.map_err(|_ended| ApiError::Broken)?;
        fate.await.map_err(|_ended| ApiError::Broken)?.map_err(ApiError::Shared)
    }
}

/// For each tenant with a transaction in flight: the triggers that wait for its end, in order of
/// arrival.
type Lines = HashMap<TenantId, Vec<Waiting>>;

#[derive(Debug)]
pub(crate) struct BatchWriter {
    orders: mpsc::Receiver<Waiting>,
    sessions: Sessions,
    hints: Arc<WorkerNotifier>,
}

impl BatchWriter {
    /// `stop` comes after the last request.
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
                Some((tenant, answers)) = under_way.next() => {
                    // Triggers that have just arrived join the next batch.
                    while let Ok(one) = self.orders.try_recv() {
                        under_way.extend(self.take(&mut lines, one));
                    }
                    let batch = lines.get_mut(&tenant).map(next).unwrap_or_default();
                    if batch.is_empty() {
                        lines.remove(&tenant);
                        answers.send();
                    } else {
                        under_way.push(self.write(tenant, batch, answers));
                    }
                }
            }
        }
    }

    fn take(&self, lines: &mut Lines, one: Waiting) -> Option<Writing> {
        match lines.entry(one.order.tenant) {
            Entry::Occupied(mut line) => {
                line.get_mut().push(one);
                None
            }
            Entry::Vacant(line) => {
                let tenant = *line.key();
                line.insert(Vec::new());
                Some(self.write(tenant, vec![one], Answers::default()))
            }
        }
    }

    /// Answers the batch `before` after this batch is sent.
    fn write(&self, tenant: TenantId, batch: Vec<Waiting>, before: Answers) -> Writing {
        let (sessions, hints) = (self.sessions.clone(), self.hints.clone());
        async move {
            let (orders, answers): (Vec<Order>, Vec<_>) =
                batch.into_iter().map(|one| (one.order, one.answer)).unzip();
            let telling = async {
                // Lets the connection's task send the statement first.
                yield_now().await;
                before.send();
            };
            let (fates, ()) = join(fates(&sessions, &hints, tenant, &orders), telling).await;
            (tenant, Answers(answers.into_iter().zip(fates).collect()))
        }
        .boxed()
    }
}

type Writing = BoxFuture<'static, (TenantId, Answers)>;

#[derive(Debug, Default)]
struct Answers(Vec<(oneshot::Sender<Answer>, Answer)>);

impl Answers {
    fn send(self) {
        for (answer, fate) in self.0 {
            // A client that has left does not learn of the commit.
            drop(answer.send(fate));
        }
    }
}

/// Omits triggers whose client has left.
fn next(line: &mut Vec<Waiting>) -> Vec<Waiting> {
    line.retain(|one| !one.answer.is_closed());
    line.drain(..line.len().min(MOST)).collect()
}

async fn fates(
    sessions: &Sessions,
    hints: &WorkerNotifier,
    tenant: TenantId,
    orders: &[Order],
) -> Vec<Answer> {
    let requests: Vec<trigger::Order<'_>> = orders.iter().map(Order::as_order).collect();
    match sessions.trigger(tenant, &requests, || hints.takes_turn(monotonic())).await {
        Ok(TriggeredBatch { fates, is_notified }) => {
            fates.into_iter().map(|fate| Ok(BatchedFate { fate, is_notified })).collect()
        }
        Err(error) if error.is_outage() => all_failed(orders, error),
        Err(error) => undone(orders, error),
    }
}

/// The outcomes of a batch that failed before its commit.
fn undone(orders: &[Order], error: DbError) -> Vec<Answer> {
    if matches!(error, DbError::TimedOut(_)) {
        return all_failed(orders, error);
    }
    let (cause, count) = (error.with_causes(), orders.len());
    tracing::warn!(
        error = cause,
        triggers = count,
        "batch of triggers failed; each is retried in its own transaction"
    );
    orders.iter().map(|_| Ok(BatchedFate { fate: None, is_notified: false })).collect()
}

fn all_failed(orders: &[Order], error: DbError) -> Vec<Answer> {
    let error = Arc::new(ApiError::from(error));
    orders.iter().map(|_| Err(error.clone())).collect()
}

#[cfg(test)]
mod tests {
    use sched_model::domain::ids::DEFAULT_TENANT;
    use sched_model::domain::run_state::Trigger;
    use sched_model::domain::trace::TraceContext;

    use super::*;

    fn waiting(job: usize) -> (Waiting, oneshot::Receiver<Answer>) {
        let (answer, fate) = oneshot::channel();
        let by = Actor {
            tenant: DEFAULT_TENANT,
            actor: String::new(),
            source: String::new(),
            request: "r".to_owned(),
            address: None,
            trace: TraceContext::begin(1, 1),
            triggered_by: Trigger::Api,
            once: None,
        };
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
    fn next_batch_skips_triggers_of_clients_that_left() {
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
