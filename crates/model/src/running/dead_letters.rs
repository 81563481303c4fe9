//! Dead letters: dispatches that were given up for good, and what somebody decides about them.
//!
//! What ends an attempt writes a row here in the same statement, and retention removes it with its dispatch. Nothing is decided about a
//! dead letter but once by discarding it, or by running it again ([`crate::dispatching::retries`]), which also serves one that was discarded. Commands
//! for many work on a page of them, newest first, in one transaction of the caller's: a page that was done is not met again, and what
//! dies anew meanwhile is not met at all. A process that dies before the commit has changed nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel_async::RunQueryDsl;

use crate::connection::database_clock;
use crate::dispatching::retries::{self, JobBar, RetriedJob, Retry, RetryOrder};
use crate::schema::{dead_letters, job_dispatch, scheduled_jobs};
use crate::{Conn, DbResult};
use sched_domain::dispatch::Settlement;
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

/// A dead letter, with what its dispatch keeps.
#[derive(Debug, Clone, Queryable)]
pub struct DeadLetter {
    /// What is kept here.
    pub row: DeadLetterRow,
    /// What its dispatch says.
    pub dispatch: DeadDispatch,
    /// Name of its job.
    pub job_name: String,
}

/// The columns of a dead letter.
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

/// What the dispatch of a dead letter says.
#[derive(Debug, Clone, Queryable, Selectable)]
#[diesel(table_name = job_dispatch, check_for_backend(diesel::pg::Pg))]
pub struct DeadDispatch {
    pub scheduled_for: DateTime<Utc>,
    pub attempt: i32,
    pub retry_count: i32,
    pub lost_count: i32,
    pub error_message: Option<String>,
    pub args: serde_json::Value,
}

/// Which dead letters are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Nobody has decided about it.
    #[default]
    Open,
    /// Somebody has decided so.
    Settled(Settlement),
    /// Whatever was decided.
    Any,
}

/// Which dead letters are meant.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// In this state.
    pub state: State,
    /// Only of this job.
    pub job: Option<JobId>,
    /// None of these jobs.
    pub without: Vec<JobId>,
    /// Only of jobs that were in this project when they died.
    pub project: Option<ProjectId>,
    /// Only those that waited in this queue.
    pub queue: Option<String>,
    /// Only those whose last attempt had an error of this class.
    pub error_class: Option<String>,
    /// Only those that died then or later.
    pub since: Option<DateTime<Utc>>,
    /// Only those that died before then.
    pub until: Option<DateTime<Utc>>,
    /// Only those that follow this one in the order: the last of the page before.
    pub after: Option<DispatchId>,
    /// The oldest first, by when their dispatches were created.
    pub oldest_first: bool,
}

/// Restricts a boxed query to what a filter means.
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

/// Dead letters of the tenant, in the order of their dispatches, at most `limit`.
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

/// The dead letter of this dispatch, if the tenant has one.
pub async fn by_id(conn: &mut Conn, tenant: TenantId, id: DispatchId) -> DbResult<Option<DeadLetter>> {
    let found = with_dispatch!()
        .filter(dead_letters::dispatch_id.eq(id))
        .filter(dead_letters::tenant_id.eq(tenant))
        .select((DeadLetterRow::as_select(), DeadDispatch::as_select(), scheduled_jobs::name));
    Ok(found.get_result(conn).await.optional()?)
}

/// How many dead letters a filter means.
pub async fn count(conn: &mut Conn, tenant: TenantId, filter: &Filter) -> DbResult<i64> {
    Ok(filtered!(dead_letters::table, tenant, filter).count().get_result(conn).await?)
}

/// What a command did with a page of dead letters.
#[derive(Debug, Clone, Default)]
pub struct Settled<T> {
    /// What was done, one for each.
    pub done: Vec<T>,
    /// How many could not be run again, and why.
    pub barred: BTreeMap<JobBar, usize>,
    /// Their jobs.
    pub jobs: HashMap<JobId, RetriedJob>,
    /// The last dead letter of the page, if others follow it.
    pub next: Option<DispatchId>,
}

/// Runs a page of open dead letters again. Call it in a transaction that holds no lock on a job yet, and
/// [`crate::connection::notify::dispatches_waiting`] after it.
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
    let held: BTreeSet<DispatchId> = hold(conn, order.tenant, &page).await?.into_iter().collect();
    let mut settled = Settled { done: Vec::new(), barred: BTreeMap::new(), jobs, next };
    let mut free = Vec::new();
    for (id, job) in page.iter().filter(|(id, _)| held.contains(id)) {
        match settled.jobs.get(job).map(|job| job.bar) {
            Some(None) => free.push(*id),
            Some(Some(bar)) => *settled.barred.entry(bar).or_default() += 1,
            // It was removed with its job meanwhile.
            None => {}
        }
    }
    settled.done = retries::make(conn, order, &free).await?;
    Ok(settled)
}

/// Discards a page of open dead letters. Call it in a transaction.
pub async fn discard_page(
    conn: &mut Conn,
    tenant: TenantId,
    filter: &Filter,
    limit: i64,
    by: &str,
    reason: Option<&str>,
) -> DbResult<Settled<(DispatchId, JobId, Option<ProjectId>)>> {
    let (page, next) = page(conn, tenant, filter, limit).await?;
    let held = hold(conn, tenant, &page).await?;
    let done = write_discarded(conn, tenant, &held, by, reason).await?;
    Ok(Settled { done, barred: BTreeMap::new(), jobs: HashMap::new(), next })
}

/// What became of the command to discard a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discarded {
    /// It is discarded now.
    Done {
        /// Its job.
        job_id: JobId,
        /// Its project.
        project_id: Option<ProjectId>,
    },
    /// It had been before.
    Already,
    /// It is run again, by this dispatch.
    Retried(DispatchId),
    /// There is no such dead letter.
    NoSuchDeadLetter,
}

/// Discards a dead letter. Call it in a transaction.
pub async fn discard(
    conn: &mut Conn,
    tenant: TenantId,
    id: DispatchId,
    by: &str,
    reason: Option<&str>,
) -> DbResult<Discarded> {
    use dead_letters as l;
    let found: Option<(Option<Settlement>, Option<DispatchId>)> = l::table
        .find((tenant, id))
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
            let done = write_discarded(conn, tenant, &[id], by, reason).await?.pop();
            Ok(done.map_or(Discarded::NoSuchDeadLetter, |(_, job_id, project_id)| Discarded::Done {
                job_id,
                project_id,
            }))
        }
    }
}

/// A dead letter and its job.
type Letter = (DispatchId, JobId);

/// The next dead letters that are open and meant, newest first, and the last of them if others follow.
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

/// Locks those that are open still, in order. Their jobs, if they are to be locked, are so already.
async fn hold(conn: &mut Conn, tenant: TenantId, page: &[Letter]) -> DbResult<Vec<DispatchId>> {
    use dead_letters as l;
    let ids: Vec<DispatchId> = page.iter().map(|(id, _)| *id).collect();
    let open = l::table
        .filter(l::tenant_id.eq(tenant).and(l::dispatch_id.eq_any(ids)))
        .filter(l::settled_at.is_null());
    Ok(open.select(l::dispatch_id).order(l::dispatch_id).for_update().load(conn).await?)
}

/// Notes of open dead letters that are locked that they are discarded.
async fn write_discarded(
    conn: &mut Conn,
    tenant: TenantId,
    ids: &[DispatchId],
    by: &str,
    reason: Option<&str>,
) -> DbResult<Vec<(DispatchId, JobId, Option<ProjectId>)>> {
    use dead_letters as l;
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
