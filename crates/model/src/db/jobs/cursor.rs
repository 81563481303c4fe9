//! Where a job's cursor goes when its settings change, so that no fire is lost or doubled by the change.
//!
//! A fire that is due when the settings change has not been seen by the scheduler yet. It is not the change's to swallow: the
//! latest such fire stays the cursor, and the scheduler decides about it as about any other; those before it, and all of them
//! when the job is disabled, are recorded as skipped. A one-off whose instant has had its fate does not come back.
//! All of this happens under the lock on the job, in the transaction of the change.

use chrono::{DateTime, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::super::schema::skipped_fires;
use super::super::{Conn, DbResult};
use super::{Job, SaveError};
use crate::domain::ids::{JobId, TenantId};
use crate::domain::job::JobSettings;
use crate::domain::schedule::{MisfirePolicy, Schedule, SkipReason, SkippedRange, plan};

/// The cursor after `existing` (if the job is not new) becomes `settings`, which describe `schedule`.
pub(super) async fn after_change(
    conn: &mut Conn,
    tenant: TenantId,
    existing: Option<&Job>,
    settings: &JobSettings,
    schedule: &Schedule,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, SaveError> {
    let Some(job) = existing else {
        return if settings.is_enabled { Ok(JobSettings::first_cursor(schedule, now)?) } else { Ok(None) };
    };
    let is_same_schedule = has_same_schedule(&job.settings, settings);
    if settings.is_enabled && job.settings.is_enabled && is_same_schedule {
        return Ok(job.state.next_run_at);
    }
    let due = job.state.next_run_at.filter(|cursor| *cursor <= now);
    let kept = match due {
        Some(cursor) => settle_due(conn, tenant, job, cursor, now, settings.is_enabled).await?,
        None => None,
    };
    if !settings.is_enabled {
        return Ok(None);
    }
    if kept.is_some() {
        return Ok(kept);
    }
    let first = JobSettings::first_cursor(schedule, now)?;
    match (schedule, first) {
        (Schedule::OneOff(_), Some(at)) if has_fate(conn, job.id, at).await? => Ok(None),
        (_, first) => Ok(first),
    }
}

/// Decides about the fires of the old schedule that are due: records all but the latest as skipped and returns that one, or
/// records it too if the job is being disabled.
async fn settle_due(
    conn: &mut Conn,
    tenant: TenantId,
    job: &Job,
    cursor: DateTime<Utc>,
    now: DateTime<Utc>,
    stays_enabled: bool,
) -> Result<Option<DateTime<Utc>>, SaveError> {
    let (policy, reason) = match stays_enabled {
        true => (MisfirePolicy::FireOnce, SkipReason::Misfire),
        false => (MisfirePolicy::Skip, SkipReason::Disabled),
    };
    let Ok(old) = job.settings.schedule(job.state.created_at) else {
        // The old schedule cannot be computed any more; its one known fire is the cursor.
        return Ok(Some(cursor).filter(|_| stays_enabled));
    };
    let mut due = plan(&old, cursor, now, policy, Some(std::time::Duration::ZERO))?;
    let kept = due.fires.pop().filter(|_| stays_enabled);
    record(conn, tenant, job.id, &due.skipped, reason).await?;
    Ok(kept)
}

async fn record(
    conn: &mut Conn,
    tenant: TenantId,
    job: JobId,
    skipped: &[SkippedRange],
    reason: SkipReason,
) -> DbResult<()> {
    use skipped_fires as s;
    let rows: Vec<_> = skipped
        .iter()
        .map(|range| {
            (
                s::tenant_id.eq(tenant),
                s::job_id.eq(job),
                s::first_fire_at.eq(range.first),
                s::last_fire_at.eq(range.last),
                s::fire_count.eq(i64::try_from(range.count.value()).unwrap_or(i64::MAX)),
                s::is_count_exact.eq(range.count.is_exact()),
                s::reason.eq(reason),
                s::detail.eq("due when the settings of the job were changed"),
            )
        })
        .collect();
    if !rows.is_empty() {
        diesel::insert_into(s::table).values(rows).on_conflict_do_nothing().execute(conn).await?;
    }
    Ok(())
}

statement! {
    /// Whether a fire time has a dispatch or lies in a skip.
    HasFate = "job_fire_has_fate.sql", (job: JobId as SqlUuid, at: DateTime<Utc> as Timestamptz) -> Bool
}

async fn has_fate(conn: &mut Conn, job: JobId, at: DateTime<Utc>) -> DbResult<bool> {
    Ok(HasFate { job, at }.get_result(conn).await?)
}

/// Whether two settings fire at the same times.
fn has_same_schedule(a: &JobSettings, b: &JobSettings) -> bool {
    a.job_type == b.job_type
        && a.schedule_config == b.schedule_config
        && a.timezone == b.timezone
        && a.dst_gap == b.dst_gap
        && a.dst_overlap == b.dst_overlap
}
