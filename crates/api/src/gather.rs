//! Triggers that are gathered: those that arrive while a transaction of their tenant is under way go together into the next one.
//!
//! A commit waits for the disk, and each statement for a round trip, so a hundred triggers in one transaction, which is one statement, cost
//! little more than one. Nobody waits for others to come: the first goes at once, alone. When as many wait as are under way, they go too,
//! beside those: one transaction is written while the other one waits for the disk. Two that are under way have no job in common, since the
//! one would wait for the other. Each trigger is answered when the transaction that has it is committed, with its own dispatch or its own
//! refusal, and has its own entry in the audit log.
//!
//! What one of them meets is not the others' concern. A trigger whose job somebody else holds comes back undone ([`Fate::Busy`]), and so do
//! all of a transaction that is refused before its commit: each is then done by itself, in a transaction of its own, where it waits as long as
//! it has to and is told what becomes of it alone. Those that waited in vain together are told so, since each alone would wait as long. When
//! the connection breaks, or the commit fails, nobody knows what was written; that is what each is told, and nothing is tried again. Who has
//! gone by the time their trigger would be written (the client, or its time) has none. A process that dies has answered nobody whose trigger
//! it did not commit.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use sched_model::db::audit::{self, AuditEntry};
use sched_model::db::triggers::{self, Fate};
use sched_model::db::{Conn, DbError};
use sched_model::domain::dispatch::Trigger;
use sched_model::domain::ids::{DispatchId, JobId, TenantId};
use sched_runtime::exit::BoxError;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::ApiError;
use crate::identity::{By, Identity};
use crate::session::{Sessions, SharedError};

/// Most triggers in one transaction: beyond this the work counts, and no longer the commit.
const MOST: usize = 100;
/// Longest arguments of a trigger that goes with others, as a body in bytes: a transaction of many is to stay small.
pub(crate) const LONGEST_ARGS: usize = 16 * 1024;
/// Most transactions of a tenant at once.
const AT_ONCE: usize = 2;
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
    by: By,
}

impl Order {
    /// One that `who` asks for.
    pub(crate) fn new(who: &Identity, by: &By, job: &str, args: Option<Arc<Value>>) -> Self {
        Self {
            tenant: who.tenant(),
            job: job.to_owned(),
            may_run_built_in: who.operates(),
            args,
            traceparent: by.trace.to_string(),
            by: by.clone(),
        }
    }

    fn as_asked(&self) -> triggers::Order<'_> {
        triggers::Order {
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
        // A tenant is in it while a transaction of its triggers is under way.
        let mut lines: HashMap<TenantId, Line> = HashMap::new();
        let mut under_way: FuturesUnordered<BoxFuture<'static, (TenantId, Vec<String>)>> =
            FuturesUnordered::new();
        loop {
            let tenant = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                one = self.orders.recv() => {
                    let Some(one) = one else { return Ok(()) };
                    let tenant = one.order.tenant;
                    lines.entry(tenant).or_default().add(one);
                    tenant
                }
                Some((tenant, jobs)) = under_way.next() => {
                    lines.entry(tenant).or_default().ended(&jobs);
                    tenant
                }
            };
            let Entry::Occupied(mut line) = lines.entry(tenant) else { continue };
            while let Some(batch) = line.get_mut().next() {
                under_way.push(self.write(tenant, batch));
            }
            if line.get().transactions == 0 {
                line.remove();
            }
        }
    }

    /// Writes triggers of a tenant and tells who waits for them; the tenant, and which jobs they were for.
    fn write(&self, tenant: TenantId, batch: Vec<Waiting>) -> BoxFuture<'static, (TenantId, Vec<String>)> {
        let sessions = self.sessions.clone();
        async move {
            let (orders, answers): (Vec<Order>, Vec<_>) =
                batch.into_iter().map(|one| (one.order, one.answer)).unzip();
            let fates = fates(&sessions, tenant, &orders).await;
            for (answer, fate) in answers.into_iter().zip(fates) {
                // Who has gone meanwhile hears as little as of any commit that was under way.
                drop(answer.send(fate));
            }
            (tenant, orders.into_iter().map(|order| order.job).collect())
        }
        .boxed()
    }
}

/// The triggers of a tenant.
#[derive(Debug, Default)]
struct Line {
    /// Those that wait, first come, first served.
    waiting: Vec<Waiting>,
    /// How many of them are for jobs of which none is under way.
    free: usize,
    /// The jobs of those under way, as they were asked for. One that is asked for by its name and by its id is found to be the same
    /// by the database, where the later comes back undone.
    jobs: HashSet<String>,
    /// How many are under way.
    under_way: usize,
    /// In how many transactions.
    transactions: usize,
}

impl Line {
    fn add(&mut self, one: Waiting) {
        self.free += usize::from(!self.jobs.contains(&one.order.job));
        self.waiting.push(one);
    }

    /// Those that go now, if some do; nobody who has gone.
    fn next(&mut self) -> Option<Vec<Waiting>> {
        if self.transactions >= AT_ONCE || self.free < self.under_way.max(1) {
            return None;
        }
        let (mut batch, mut rest) = (Vec::new(), Vec::new());
        for one in std::mem::take(&mut self.waiting) {
            if one.answer.is_closed() {
                continue;
            }
            let goes = batch.len() < MOST && !self.jobs.contains(&one.order.job);
            if goes { batch.push(one) } else { rest.push(one) }
        }
        self.waiting = rest;
        self.jobs.extend(batch.iter().map(|one: &Waiting| one.order.job.clone()));
        self.count();
        if batch.is_empty() {
            return None;
        }
        self.under_way += batch.len();
        self.transactions += 1;
        Some(batch)
    }

    /// A transaction has ended that had triggers of these jobs.
    fn ended(&mut self, jobs: &[String]) {
        self.transactions -= 1;
        self.under_way -= jobs.len();
        for job in jobs {
            self.jobs.remove(job);
        }
        self.count();
    }

    fn count(&mut self) {
        self.free = self.waiting.iter().filter(|one| !self.jobs.contains(&one.order.job)).count();
    }
}

/// Writes the triggers of a tenant, and says what became of each.
async fn fates(sessions: &Sessions, tenant: TenantId, orders: &[Order]) -> Vec<Answer> {
    let asked: Vec<triggers::Order<'_>> = orders.iter().map(Order::as_asked).collect();
    match sessions.trigger(tenant, &asked).await {
        Ok(Some(fates)) => return fates.into_iter().map(Ok).collect(),
        Ok(None) => {}
        Err(error) if error.is_outage() => return told_all(orders, error),
        Err(error) => return undone(orders, error),
    }
    let written = sessions.share(tenant, "trigger_jobs_by_quota", async |conn: &mut Conn| {
        let done = triggers::trigger_all(conn, tenant, Trigger::Api, &asked).await;
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

/// A trigger that made a dispatch, as the audit log has it.
pub(crate) fn entry(
    tenant: TenantId,
    job: JobId,
    dispatch: DispatchId,
    has_own_args: bool,
    by: &By,
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
    use crate::identity::Signed;

    fn waiting(job: usize) -> (Waiting, oneshot::Receiver<Answer>) {
        let (answer, fate) = oneshot::channel();
        let Signed(by) = Signed::nobody("r", None, TraceContext::begin(1, 1));
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

    /// A line to which triggers of these jobs have come, and who waits for them.
    fn line(jobs: impl IntoIterator<Item = usize>) -> (Line, Vec<oneshot::Receiver<Answer>>) {
        let (mut line, mut fates) = (Line::default(), Vec::new());
        come(&mut line, &mut fates, jobs);
        (line, fates)
    }

    fn come(
        line: &mut Line,
        fates: &mut Vec<oneshot::Receiver<Answer>>,
        jobs: impl IntoIterator<Item = usize>,
    ) {
        for job in jobs {
            let (one, fate) = waiting(job);
            line.add(one);
            fates.push(fate);
        }
    }

    fn next(line: &mut Line) -> Vec<String> {
        line.next().into_iter().flatten().map(|one| one.order.job).collect()
    }

    const NOBODY: [&str; 0] = [];

    #[test]
    fn the_first_of_a_line_go_next_and_nobody_who_has_gone() {
        let (mut line, mut fates) = line(0..MOST + 10);
        fates.drain(2..5);
        let first = next(&mut line);
        assert_eq!((first.len(), &first[..3]), (MOST, &["0".to_owned(), "1".to_owned(), "5".to_owned()][..]));
        line.ended(&first);
        let rest = next(&mut line);
        assert_eq!((rest.len(), rest.last()), (7, Some(&(MOST + 9).to_string())));
        fates.clear();
        line.ended(&rest);
        assert_eq!(next(&mut line), NOBODY);
        assert_eq!((line.waiting.len(), line.transactions, line.under_way), (0, 0, 0));
    }

    #[test]
    fn as_many_as_are_under_way_go_beside_them() {
        let (mut line, mut fates) = line(0..3);
        let first = next(&mut line);
        assert_eq!(first, ["0", "1", "2"]);
        come(&mut line, &mut fates, [3, 4]);
        assert_eq!(next(&mut line), NOBODY, "2 wait, 3 are under way");
        come(&mut line, &mut fates, [5]);
        assert_eq!(next(&mut line), ["3", "4", "5"]);
        come(&mut line, &mut fates, 6..20);
        assert_eq!(next(&mut line), NOBODY, "two are under way");
        line.ended(&first);
        assert_eq!(next(&mut line).len(), 14);
    }

    #[test]
    fn no_two_under_way_have_a_job_in_common() {
        let (mut line, mut fates) = line([1, 1]);
        let first = next(&mut line);
        assert_eq!(first, ["1", "1"]);
        come(&mut line, &mut fates, [1, 3, 1]);
        assert_eq!(next(&mut line), NOBODY, "one of those that wait may go, two are under way");
        come(&mut line, &mut fates, [4]);
        let beside = next(&mut line);
        assert_eq!(beside, ["3", "4"]);
        line.ended(&beside);
        assert_eq!(next(&mut line), NOBODY);
        line.ended(&first);
        assert_eq!(next(&mut line), ["1", "1"]);
    }
}
