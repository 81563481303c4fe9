//! Pages of the stream with a filter, in both directions.
//!
//! The page is merged from the single events and the two kinds of batches. Each source is read in
//! its own order and up to the limit of the page. Batches of several jobs have no index by job: a
//! page of a job reads all of them in its span, so the caller chooses the span by the time that a
//! page takes.

use chrono::{DateTime, Utc};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Bool, Nullable};
use diesel_async::RunQueryDsl;

use super::{Event, EventKey, whole};
use crate::events::append::{EXECUTION_COMPLETED, EXECUTION_STARTED};
use crate::events::section::EventRow;
use crate::schema::events;
use crate::{Conn, DbResult};
use sched_domain::ids::{DispatchId, JobId, ProjectId, TenantId};

/// The columns of the two views of expanded batches that a page reads.
macro_rules! expanded_batches {
    ($view:ident) => {
        diesel::table! {
            $view (id) {
                id -> BigInt,
                created_at -> Timestamptz,
                tenant_id -> Nullable<Uuid>,
                project_id -> Nullable<Uuid>,
                job_id -> Nullable<Uuid>,
                dispatch_id -> Nullable<Uuid>,
                event_type -> Text,
                payload -> Jsonb,
                only_job_id -> Nullable<Uuid>,
            }
        }
    };
}

expanded_batches!(run_start_events);
expanded_batches!(run_end_events);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFilter {
    pub tenant: TenantId,
    pub with_installation: bool,
    pub project: Option<ProjectId>,
    pub job: Option<JobId>,
    pub dispatch: Option<DispatchId>,
    /// Only these types; empty for all.
    pub types: Vec<String>,
    pub since: Option<DateTime<Utc>>,
    pub until: Option<DateTime<Utc>>,
}

impl EventFilter {
    #[must_use]
    pub const fn of(tenant: TenantId) -> Self {
        Self {
            tenant,
            with_installation: false,
            project: None,
            job: None,
            dispatch: None,
            types: Vec::new(),
            since: None,
            until: None,
        }
    }

    #[must_use]
    pub const fn only(key: EventKey) -> Span {
        let EventKey { transaction, id } = key;
        Span::Forward {
            after: EventKey { transaction, id: id.saturating_sub(1) },
            before: EventKey { transaction, id: id.saturating_add(1) },
        }
    }

    /// Whether an event matches; the same condition as in [`page`].
    #[must_use]
    pub fn matches(&self, event: &Event) -> bool {
        let is_theirs = match event.tenant_id {
            Some(tenant) => tenant == self.tenant,
            None => self.with_installation,
        };
        is_theirs
            && self.project.is_none_or(|project| event.project_id == Some(project))
            && self.job.is_none_or(|job| event.job_id == Some(job))
            && self.dispatch.is_none_or(|dispatch| event.dispatch_id == Some(dispatch))
            && (self.types.is_empty() || self.types.contains(&event.event_type))
            && self.since.is_none_or(|since| event.at >= since)
            && self.until.is_none_or(|until| event.at < until)
    }

    fn admits(&self, event_type: &str) -> bool {
        self.types.is_empty() || self.types.iter().any(|name| name == event_type)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    Forward {
        after: EventKey,
        before: EventKey,
    },
    /// The last events, newest first.
    Backward {
        after: EventKey,
        before: EventKey,
    },
}

/// The query of one source: its columns, its conditions and its order.
macro_rules! source {
    ($table:ident, $filter:expr, $span:expr, $forward:literal, $backward:literal) => {{
        let (filter, span): (&EventFilter, Span) = ($filter, $span);
        let (Span::Forward { after, before } | Span::Backward { after, before }) = span;
        let mut query = $table::table
            .select((
                sql::<Nullable<BigInt>>("transaction_id::text::bigint"),
                $table::id.nullable(),
                $table::created_at.nullable(),
                $table::tenant_id,
                $table::project_id,
                $table::job_id,
                $table::dispatch_id,
                $table::event_type.nullable(),
                $table::payload.nullable(),
            ))
            .into_boxed();
        query = match filter.with_installation {
            true => query.filter($table::tenant_id.eq(filter.tenant).or($table::tenant_id.is_null())),
            false => query.filter($table::tenant_id.eq(filter.tenant)),
        };
        if after > EventKey::default() {
            query = query.filter(key("(transaction_id, id) > ", after));
            // For the index of the batches, which does not contain the ids of their events.
            query = query.filter(transaction("transaction_id >= ", after));
        }
        if before < EventKey::LAST {
            query = query.filter(key("(transaction_id, id) < ", before));
            query = query.filter(transaction("transaction_id <= ", before));
        }
        if let Some(project) = filter.project {
            query = query.filter($table::project_id.eq(project));
        }
        if let Some(dispatch) = filter.dispatch {
            query = query.filter($table::dispatch_id.eq(dispatch));
        }
        if let Some(since) = filter.since {
            query = query.filter($table::created_at.ge(since));
        }
        if let Some(until) = filter.until {
            query = query.filter($table::created_at.lt(until));
        }
        match span {
            Span::Forward { .. } => query.order(sql::<Bool>($forward)),
            Span::Backward { .. } => query.order(sql::<Bool>($backward)),
        }
    }};
}

/// The events of one kind of batches. Those of a job come from the batches of this job alone, and
/// from those of several jobs.
macro_rules! expanded {
    ($conn:expr, $view:ident, $filter:expr, $span:expr, $limit:expr) => {{
        let query = || {
            source!(
                $view,
                $filter,
                $span,
                "transaction_id, batch_id, id",
                "transaction_id DESC, batch_id DESC, id DESC"
            )
            .limit($limit)
        };
        match $filter.job {
            None => query().load::<EventRow>($conn).await?,
            Some(job) => {
                let of_job = query().filter($view::only_job_id.eq(job));
                let mixed = query().filter($view::only_job_id.is_null()).filter($view::job_id.eq(job));
                let mut rows = of_job.load::<EventRow>($conn).await?;
                rows.extend(mixed.load::<EventRow>($conn).await?);
                rows
            }
        }
    }};
}

/// Up to `limit` events of a span; fewer if the span has no more.
///
/// The sources are read one after the other. A page of unsettled events may lack an event that is
/// committed at the same time, as any list of unsettled events may.
pub async fn page(conn: &mut Conn, filter: &EventFilter, span: Span, limit: i64) -> DbResult<Vec<Event>> {
    let mut single = source!(events, filter, span, "transaction_id, id", "transaction_id DESC, id DESC");
    if let Some(job) = filter.job {
        single = single.filter(events::job_id.eq(job));
    }
    if !filter.types.is_empty() {
        single = single.filter(events::event_type.eq_any(&filter.types));
    }
    let mut rows: Vec<EventRow> = single.limit(limit).load(conn).await?;
    if filter.admits(EXECUTION_STARTED) {
        rows.extend(expanded!(conn, run_start_events, filter, span, limit));
    }
    if filter.admits(EXECUTION_COMPLETED) {
        rows.extend(expanded!(conn, run_end_events, filter, span, limit));
    }
    let mut found: Vec<Event> = rows.into_iter().filter_map(whole).collect();
    match span {
        Span::Forward { .. } => found.sort_unstable_by_key(|event| event.key),
        Span::Backward { .. } => found.sort_unstable_by_key(|event| std::cmp::Reverse(event.key)),
    }
    found.truncate(usize::try_from(limit).unwrap_or(0));
    Ok(found)
}

/// Numbers need no escaping.
fn key(comparison: &str, position: EventKey) -> diesel::expression::SqlLiteral<Bool> {
    sql::<Bool>(&format!("{comparison}('{}'::xid8, {})", position.transaction, position.id))
}

fn transaction(comparison: &str, position: EventKey) -> diesel::expression::SqlLiteral<Bool> {
    sql::<Bool>(&format!("{comparison}'{}'::xid8", position.transaction))
}
