//! Where a job's cursor goes when its settings or its calendars change, so that no fire is lost or doubled by the change.
//!
//! A fire that is due at that moment has not been seen by the scheduler yet. It is not the change's to swallow: the latest
//! such fire stays the cursor, and the scheduler decides about it as about any other; those before it, and all of them when
//! the job is disabled, are recorded as skipped, as is what the old calendars excluded until now. A listed instant that has
//! had its fate does not come back. All of this happens under the lock on the job, in the transaction of the change.

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::super::schema::skipped_fires;
use super::super::{Conn, DbResult};
use super::{Job, SaveError};
use crate::domain::ids::{JobId, TenantId};
use crate::domain::job::{JobSettings, OverlapPolicy};
use crate::domain::schedule::overlap::Load;
use crate::domain::schedule::{
    Decision, MisfirePolicy, Situation, SkipReason, SkippedRange, Timetable, decide, settle_quiet,
};

/// What the database distinguishes: a fire a tick later than another is another.
const TICK: TimeDelta = TimeDelta::microseconds(1);

/// Where a job stands after a change.
#[derive(Debug, Clone)]
pub(super) struct Cursor {
    /// Its next fire.
    pub(super) next_run_at: Option<DateTime<Utc>>,
    /// Every fire time up to and including this instant has had its fate.
    pub(super) settled_until: DateTime<Utc>,
    /// What is to be recorded once the job is written.
    skipped: Vec<SkippedRange>,
}

impl Cursor {
    /// Where the job stands already.
    pub(super) fn unchanged(job: &Job) -> Self {
        Self::resting(job.state.next_run_at, job.state.settled_until)
    }

    fn resting(next_run_at: Option<DateTime<Utc>>, settled_until: DateTime<Utc>) -> Self {
        Self { next_run_at, settled_until, skipped: Vec::new() }
    }

    /// Records what the change skips.
    pub(super) async fn record(&self, conn: &mut Conn, tenant: TenantId, job: JobId) -> DbResult<()> {
        use skipped_fires as s;
        let rows: Vec<_> = self
            .skipped
            .iter()
            .map(|range| {
                (
                    s::tenant_id.eq(tenant),
                    s::job_id.eq(job),
                    s::first_fire_at.eq(range.first),
                    s::last_fire_at.eq(range.last),
                    s::fire_count.eq(i64::try_from(range.count.value()).unwrap_or(i64::MAX)),
                    s::is_count_exact.eq(range.count.is_exact()),
                    s::reason.eq(range.reason),
                    s::detail.eq("when the settings of the job or its calendars were changed"),
                )
            })
            .collect();
        if !rows.is_empty() {
            diesel::insert_into(s::table).values(rows).on_conflict_do_nothing().execute(conn).await?;
        }
        Ok(())
    }
}

/// The cursor of a new job.
pub(super) fn of_new(
    settings: &JobSettings,
    timetable: &Timetable,
    now: DateTime<Utc>,
) -> Result<Cursor, SaveError> {
    if !settings.is_enabled {
        return Ok(Cursor::resting(None, now));
    }
    let next = JobSettings::first_cursor(timetable, now)?;
    let (skipped, settled_until) = settle_quiet(timetable, now, next, now)?;
    Ok(Cursor { next_run_at: next, settled_until, skipped })
}

/// The cursor after a job with the timetable `old` (`None` if that cannot be computed any more) becomes `settings`, which
/// describe `timetable`.
pub(super) async fn after_change(
    conn: &mut Conn,
    job: &Job,
    old: Option<&Timetable>,
    settings: &JobSettings,
    timetable: &Timetable,
    now: DateTime<Utc>,
) -> Result<Cursor, SaveError> {
    let mut cursor = settled(job, old, now, settings.is_enabled)?;
    if !settings.is_enabled || cursor.next_run_at.is_some() {
        return Ok(cursor);
    }
    if settings.max_runs.is_some_and(|runs| job.state.fired_count >= runs) {
        return Ok(cursor);
    }
    cursor.next_run_at = first_without_fate(conn, job.id, timetable, now).await?;
    let (skipped, settled_until) =
        settle_quiet(timetable, cursor.settled_until, cursor.next_run_at, cursor.settled_until)?;
    cursor.skipped.extend(skipped);
    cursor.settled_until = settled_until;
    Ok(cursor)
}

/// Settles the old timetable of a job up to now. The latest fire that is due stays the cursor, unless the job is being disabled.
fn settled(
    job: &Job,
    old: Option<&Timetable>,
    now: DateTime<Utc>,
    stays_enabled: bool,
) -> Result<Cursor, SaveError> {
    if !job.settings.is_enabled {
        // Nothing was to fire, so there is nothing to account for.
        return Ok(Cursor::resting(None, now));
    }
    let (settled_until, next) = (job.state.settled_until, job.state.next_run_at);
    let due = next.filter(|cursor| *cursor <= now);
    let Some(old) = old else {
        // The one fire that is known of a timetable that cannot be computed is the cursor.
        return Ok(Cursor::resting(due.filter(|_| stays_enabled), now));
    };
    let Some(cursor) = due else {
        // What lies ahead is the new timetable's: only the past is settled.
        let (skipped, settled_until) = settle_quiet(old, settled_until, next.or(Some(now + TICK)), now)?;
        return Ok(Cursor { next_run_at: None, settled_until, skipped });
    };
    let decision = decide(&Situation {
        timetable: old,
        settled_until,
        cursor,
        // Just after now, so that a fire of this very instant is among those that are late.
        now: now + TICK,
        misfire: MisfirePolicy::FireOnce,
        grace: Some(std::time::Duration::ZERO),
        overlap: OverlapPolicy::Allow,
        load: Load { open: 0, max_instances: 1 },
        runs_left: None,
        held_by: (!stays_enabled).then_some(SkipReason::Disabled),
        limit: 1,
    })?;
    let Decision { fires, skipped, settled_until, .. } = decision;
    let kept = fires.into_iter().next();
    let settled_until = kept.map_or(settled_until.min(now), |kept| kept - TICK);
    Ok(Cursor { next_run_at: kept, settled_until, skipped })
}

/// The first fire of the new timetable. Of a list of instants, the first that has had no fate, even if it has passed.
async fn first_without_fate(
    conn: &mut Conn,
    job: JobId,
    timetable: &Timetable,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, SaveError> {
    let mut next = JobSettings::first_cursor(timetable, now)?;
    while let Some(at) = next.filter(|at| *at <= now) {
        if !has_fate(conn, job, at).await? {
            break;
        }
        next = timetable.next_after(at)?;
    }
    Ok(next)
}

statement! {
    /// Whether a fire time has a dispatch or lies in a skip.
    HasFate = "job_fire_has_fate.sql", (job: JobId as SqlUuid, at: DateTime<Utc> as Timestamptz) -> Bool
}

async fn has_fate(conn: &mut Conn, job: JobId, at: DateTime<Utc>) -> DbResult<bool> {
    Ok(HasFate { job, at }.get_result(conn).await?)
}
