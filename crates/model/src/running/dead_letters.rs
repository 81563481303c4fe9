//! Dead letters: runs that failed finally, and the decisions of users about them.
//!
//! The statement that ends an attempt also inserts the row, and retention deletes it together with
//! its run. A user decides about a dead letter once: discards it, or retries it
//! ([`crate::dispatching::retries`]). A discarded one can be retried too. Bulk commands work on one
//! page of dead letters, newest first, in one transaction of the caller. They do not meet a
//! finished page again, nor dead letters that appear until then. A process that dies before the
//! commit has changed nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::connection::database_clock;
use crate::dispatching::arguments::RunArguments;
use crate::dispatching::retries::{self, JobBar, RetriedJob, Retry, RetryOrder};
use crate::schema::{dead_letters, job_dispatch, scheduled_jobs};
use crate::{Conn, DbResult};
use sched_domain::ids::{ClaimToken, DispatchId, ExecutionId, JobId, ProjectId, TenantId, execution_id};
use sched_domain::run_state::Settlement;

#[derive(Debug, Clone, Queryable)]
pub struct DeadLetter {
    pub row: DeadLetterRow,
    pub dispatch: DeadDispatch,
    pub job_name: String,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = dead_letters, check_for_backend(diesel::pg::Pg))]
pub struct DeadLetterRow {
    pub dispatch_id: DispatchId,
    pub project_id: Option<ProjectId>,
    pub job_id: JobId,
    pub queue: String,
    pub error_class: Option<String>,
    pub died_at: DateTime<Utc>,
    pub settled_as: Option<Settlement>,
    pub settled_at: Option<DateTime<Utc>>,
    pub settled_by: Option<String>,
    pub settled_reason: Option<String>,
    pub retried_as: Option<DispatchId>,
}

#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = job_dispatch, check_for_backend(diesel::pg::Pg))]
pub struct DeadDispatch {
    pub scheduled_for: DateTime<Utc>,
    pub attempt: i32,
    pub retry_count: i32,
    pub lost_count: i32,
    pub error_message: Option<String>,
    claimed_at: Option<DateTime<Utc>>,
    claim_token: Option<ClaimToken>,
    /// Its own or those of its version of the job.
    #[diesel(select_expression = RunArguments, select_expression_type = RunArguments)]
    pub args: serde_json::Value,
}

impl DeadLetter {
    /// The attempt that failed last; `None` if no worker claimed the run.
    #[must_use]
    pub fn last_attempt(&self) -> Option<ExecutionId> {
        let DeadDispatch { claimed_at, claim_token, .. } = self.dispatch;
        Some(execution_id(claimed_at?, self.row.dispatch_id, claim_token?))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    #[default]
    Open,
    Settled(Settlement),
    Any,
}

#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub state: State,
    pub job: Option<JobId>,
    pub without: Vec<JobId>,
    /// Project of the job when the run became a dead letter.
    pub project: Option<ProjectId>,
    pub queue: Option<String>,
    /// Error class of the last attempt.
    pub error_class: Option<String>,
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
    pub after: Option<DispatchId>,
    /// Ordered by creation of the run, oldest first.
    pub oldest_first: bool,
}

macro_rules! filtered {
    ($query:expr, $tenant:expr, $filter:expr) => {{
        use dead_letters as l;
        let (mut query, filter) = ($query.filter(l::tenant_id.eq($tenant)).into_boxed(), $filter);
        match filter.state {
            State::Open => query = query.filter(l::settled_at.is_null()),
            State::Settled(settlement) => query = query.filter(l::settled_as.eq(settlement)),
            State::Any => {}
        }
        if let Some(job) = filter.job {
            query = query.filter(l::job_id.eq(job));
        }
        if !filter.without.is_empty() {
            query = query.filter(l::job_id.ne_all(&filter.without));
        }
        if let Some(project) = filter.project {
            query = query.filter(l::project_id.eq(project));
        }
        if let Some(queue) = &filter.queue {
            query = query.filter(l::queue.eq(queue));
        }
        if let Some(class) = &filter.error_class {
            query = query.filter(l::error_class.eq(class));
        }
        if let Some(since) = filter.since {
            query = query.filter(l::died_at.ge(since));
        }
        if let Some(until) = filter.until {
            query = query.filter(l::died_at.lt(until));
        }
        query = match (filter.after, filter.oldest_first) {
            (Some(after), true) => query.filter(l::dispatch_id.gt(after)),
            (Some(after), false) => query.filter(l::dispatch_id.lt(after)),
            (None, _) => query,
        };
        query
    }};
}

macro_rules! with_dispatch {
    () => {
        dead_letters::table
            .inner_join(job_dispatch::table.on(job_dispatch::id.eq(dead_letters::dispatch_id)))
            .inner_join(
                scheduled_jobs::table.on(scheduled_jobs::tenant_id
                    .eq(dead_letters::tenant_id)
                    .and(scheduled_jobs::id.eq(dead_letters::job_id))),
            )
    };
}

/// Dead letters of the tenant, ordered by run id, at most `limit`.
pub async fn list(
    conn: &mut Conn,
    tenant: TenantId,
    filter: &Filter,
    limit: i64,
) -> DbResult<Vec<DeadLetter>> {
    use dead_letters as l;
    let rows = filtered!(with_dispatch!(), tenant, filter).select((
        DeadLetterRow::as_select(),
        DeadDispatch::as_select(),
        scheduled_jobs::name,
    ));
    let rows = match filter.oldest_first {
        true => rows.order(l::dispatch_id.asc()),
        false => rows.order(l::dispatch_id.desc()),
    };
    Ok(rows.limit(limit).load(conn).await?)
}

pub async fn by_id(conn: &mut Conn, tenant: TenantId, id: DispatchId) -> DbResult<Option<DeadLetter>> {
    let found = with_dispatch!()
        .filter(dead_letters::dispatch_id.eq(id))
        .filter(dead_letters::tenant_id.eq(tenant))
        .select((DeadLetterRow::as_select(), DeadDispatch::as_select(), scheduled_jobs::name));
    Ok(found.get_result(conn).await.optional()?)
}

pub async fn count(conn: &mut Conn, tenant: TenantId, filter: &Filter) -> DbResult<i64> {
    Ok(filtered!(dead_letters::table, tenant, filter).count().get_result(conn).await?)
}

#[derive(Debug, Clone, Default)]
pub struct Settled<T> {
    pub done: Vec<T>,
    /// Number of runs that could not be retried, by reason.
    pub barred: BTreeMap<JobBar, usize>,
    pub jobs: HashMap<JobId, RetriedJob>,
    /// The last dead letter of the page, if more follow.
    pub next: Option<DispatchId>,
}

/// Retries a page of open dead letters. Call it in a transaction that holds no lock on a job yet,
/// and call [`crate::connection::notify::dispatches_waiting`] after the commit.
pub async fn retry_page(
    conn: &mut Conn,
    order: &RetryOrder<'_>,
    filter: &Filter,
    limit: i64,
) -> DbResult<Settled<Retry>> {
    let (page, next) = page(conn, order.tenant, filter, limit).await?;
    let jobs: BTreeSet<JobId> = page.iter().map(|(_, job)| *job).collect();
    let jobs: HashMap<JobId, RetriedJob> =
        retries::lock_jobs(conn, order.tenant, &jobs).await?.into_iter().collect();
    let held: BTreeSet<DispatchId> = lock(conn, order.tenant, &page).await?.into_iter().collect();
    let mut settled = Settled { done: Vec::new(), barred: BTreeMap::new(), jobs, next };
    let mut free = Vec::new();
    for (id, job) in page.iter().filter(|(id, _)| held.contains(id)) {
        match settled.jobs.get(job).map(|job| job.bar) {
            Some(None) => free.push(*id),
            Some(Some(bar)) => *settled.barred.entry(bar).or_default() += 1,
            // Deleted in the meantime with its job.
            None => {}
        }
    }
    settled.done = retries::create(conn, order, &free).await?;
    Ok(settled)
}

/// A command to discard dead letters.
#[derive(Debug, Clone, Copy)]
pub struct DiscardOrder<'a> {
    pub tenant: TenantId,
    /// The user or program that discards.
    pub by: &'a str,
    pub reason: Option<&'a str>,
}

/// Discards a page of open dead letters. Call it in a transaction.
pub async fn discard_page(
    conn: &mut Conn,
    order: &DiscardOrder<'_>,
    filter: &Filter,
    limit: i64,
) -> DbResult<Settled<(DispatchId, JobId, Option<ProjectId>)>> {
    let (page, next) = page(conn, order.tenant, filter, limit).await?;
    let held = lock(conn, order.tenant, &page).await?;
    let done = write_discarded(conn, order, &held).await?;
    Ok(Settled { done, barred: BTreeMap::new(), jobs: HashMap::new(), next })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discarded {
    Done { job_id: JobId, project_id: Option<ProjectId> },
    Already,
    Retried(DispatchId),
    NoSuchDeadLetter,
}

/// Discards a dead letter. Call it in a transaction.
pub async fn discard(conn: &mut Conn, order: &DiscardOrder<'_>, id: DispatchId) -> DbResult<Discarded> {
    use dead_letters as l;
    let found: Option<(Option<Settlement>, Option<DispatchId>)> = l::table
        .find((order.tenant, id))
        .select((l::settled_as, l::retried_as))
        .for_update()
        .get_result(conn)
        .await
        .optional()?;
    match found {
        None => Ok(Discarded::NoSuchDeadLetter),
        Some((_, Some(dispatch))) => Ok(Discarded::Retried(dispatch)),
        Some((Some(_), None)) => Ok(Discarded::Already),
        Some((None, None)) => {
            let done = write_discarded(conn, order, &[id]).await?.pop();
            Ok(done.map_or(Discarded::NoSuchDeadLetter, |(_, job_id, project_id)| Discarded::Done {
                job_id,
                project_id,
            }))
        }
    }
}

type Letter = (DispatchId, JobId);

/// The next open dead letters that match, newest first, and the last of them if more follow.
async fn page(
    conn: &mut Conn,
    tenant: TenantId,
    filter: &Filter,
    limit: i64,
) -> DbResult<(Vec<Letter>, Option<DispatchId>)> {
    let open = Filter { state: State::Open, oldest_first: false, ..filter.clone() };
    let mut rows: Vec<Letter> = filtered!(dead_letters::table, tenant, &open)
        .select((dead_letters::dispatch_id, dead_letters::job_id))
        .order(dead_letters::dispatch_id.desc())
        .limit(limit + 1)
        .load(conn)
        .await?;
    let size = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = rows.len() > size;
    rows.truncate(size);
    let next = rows.last().filter(|_| has_more).map(|(id, _)| *id);
    Ok((rows, next))
}

/// Locks those that are still open, in order. If their jobs need a lock, the caller holds it
/// already.
async fn lock(conn: &mut Conn, tenant: TenantId, page: &[Letter]) -> DbResult<Vec<DispatchId>> {
    use dead_letters as l;
    let ids: Vec<DispatchId> = page.iter().map(|(id, _)| *id).collect();
    let open = l::table
        .filter(l::tenant_id.eq(tenant).and(l::dispatch_id.eq_any(ids)))
        .filter(l::settled_at.is_null());
    Ok(open.select(l::dispatch_id).order(l::dispatch_id).for_update().load(conn).await?)
}

async fn write_discarded(
    conn: &mut Conn,
    order: &DiscardOrder<'_>,
    ids: &[DispatchId],
) -> DbResult<Vec<(DispatchId, JobId, Option<ProjectId>)>> {
    use dead_letters as l;
    let DiscardOrder { tenant, by, reason } = *order;
    let now = database_clock::now(conn).await?;
    let written = diesel::update(l::table.filter(l::tenant_id.eq(tenant).and(l::dispatch_id.eq_any(ids))))
        .set((
            l::settled_as.eq(Settlement::Discarded),
            l::settled_at.eq(now),
            l::settled_by.eq(by),
            l::settled_reason.eq(reason),
        ))
        .returning((l::dispatch_id, l::job_id, l::project_id));
    Ok(written.get_results(conn).await?)
}
