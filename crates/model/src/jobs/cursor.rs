//! Moves a job's cursor when its settings or calendars change, so that the change loses or doubles
//! no fire.
//!
//! The scheduler has not seen a fire that is due at the change. The latest due fire stays the
//! cursor, and the scheduler decides about it. Earlier due fires are recorded as skipped, and all
//! of them if the job is disabled. Fires that the old calendars excluded until now are recorded
//! too.
//!
//! Two more kinds of fires stay due: a fire on its way to a business day that the new timetable
//! does not have, and a fire that the new timetable moves forward to before now. A decided fire
//! does not return: a listed time, or a fire that only moves to a later day after it has fired.
//! Fires are settled up to the present and never further. A fire that a pause holds is recorded as
//! paused first.
//!
//! All of this happens under the lock on the job, in the transaction of the change. A process that
//! dies in between leaves the job and its records unchanged.
//!
//! Each record names the previous one, and the job the last one, so a lost record is detected.

use chrono::{DateTime, TimeDelta, Utc};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Timestamptz, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;

use super::super::schema::{scheduled_jobs, skipped_fires};
use super::super::{Conn, DbResult};
use super::{Job, SaveError};
use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::{JobSettings, OverlapPolicy};
use sched_timetable::overlap::Load;
use sched_timetable::{
    Count, Fire, MisfirePolicy, Situation, SkipReason, SkippedRange, Timetable, decide, settle_quiet,
};

/// The database's resolution: a fire one tick later is a different fire.
const TICK: TimeDelta = TimeDelta::microseconds(1);

#[derive(Debug, Clone)]
pub(super) struct Cursor {
    pub(super) next_run_at: Option<DateTime<Utc>>,
    /// Every fire time up to and including this is decided.
    pub(super) settled_until: DateTime<Utc>,
    /// Whether the next fire was computed with the time zone tables of this process.
    pub(super) is_computed: bool,
    /// The job's last record before the change.
    last_record: Option<DateTime<Utc>>,
    /// Skips to be recorded after the job is written.
    skipped: Vec<SkippedRange>,
}

impl Cursor {
    /// The present position of the job.
    pub(super) fn unchanged(job: &Job) -> Self {
        Self { is_computed: false, ..Self::moved(job, job.state.next_run_at, job.state.settled_until) }
    }

    /// Requests a visit of the leader at once; settles nothing.
    pub(super) fn visit(job: &Job, now: DateTime<Utc>) -> Self {
        Self::moved(job, Some(now), job.state.settled_until)
    }

    /// The first position of a job that has no records.
    fn first(now: DateTime<Utc>) -> Self {
        Self {
            next_run_at: None,
            settled_until: now,
            is_computed: true,
            last_record: None,
            skipped: Vec::new(),
        }
    }

    /// A new position of a job that may have records.
    fn moved(job: &Job, next_run_at: Option<DateTime<Utc>>, settled_until: DateTime<Utc>) -> Self {
        Self { next_run_at, last_record: job.state.last_fire_at, ..Self::first(settled_until) }
    }

    /// Writes the position of a job whose settings stay, with the skips of the change.
    pub(super) async fn store(
        &self,
        conn: &mut Conn,
        (tenant, job): (TenantId, JobId),
        tzdata_version: Option<&str>,
    ) -> DbResult<()> {
        diesel::update(scheduled_jobs::table.find((tenant, job)))
            .set((
                scheduled_jobs::next_run_at.eq(self.next_run_at),
                scheduled_jobs::settled_until.eq(self.settled_until),
                scheduled_jobs::tzdata_version.eq(tzdata_version),
                // Writing the unchanged version again fires the trigger that notifies the leader.
                scheduled_jobs::version.eq(scheduled_jobs::version),
            ))
            .execute(conn)
            .await?;
        self.record(conn, tenant, job).await
    }

    /// Records the skips of the change, after the job's last record.
    pub(super) async fn record(&self, conn: &mut Conn, tenant: TenantId, job: JobId) -> DbResult<()> {
        use skipped_fires as s;
        let mut ranges: Vec<&SkippedRange> = self.skipped.iter().collect();
        ranges.sort_by_key(|range| range.first);
        let mut follows = self.last_record;
        let mut rows = Vec::new();
        for range in ranges {
            rows.push((
                s::tenant_id.eq(tenant),
                s::job_id.eq(job),
                s::first_fire_at.eq(range.first),
                s::last_fire_at.eq(range.last),
                s::fire_count.eq(i64::try_from(range.count.value()).unwrap_or(i64::MAX)),
                s::is_count_exact.eq(range.count.is_exact()),
                s::reason.eq(range.reason),
                s::detail.eq("when the settings of the job or its calendars were changed"),
                s::follows.eq(follows),
            ));
            follows = Some(range.first);
        }
        if rows.is_empty() {
            return Ok(());
        }
        // A fire that was recorded before keeps its first record, with the same key.
        diesel::insert_into(s::table).values(rows).on_conflict_do_nothing().execute(conn).await?;
        diesel::update(scheduled_jobs::table.find((tenant, job)))
            .set(scheduled_jobs::last_fire_at.eq(follows))
            .execute(conn)
            .await?;
        Ok(())
    }
}

/// The timetable of a job from a change on.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewTimetable<'a> {
    /// The settings that describe the timetable.
    pub(super) settings: &'a JobSettings,
    pub(super) timetable: &'a Timetable,
    /// The time of the change.
    pub(super) now: DateTime<Utc>,
}

/// The cursor of a new job.
pub(super) fn of_new(new: NewTimetable<'_>) -> Result<Cursor, SaveError> {
    let NewTimetable { settings, timetable, now } = new;
    let mut cursor = Cursor::first(now);
    if !settings.is_enabled {
        return Ok(cursor);
    }
    record_swallowed(&mut cursor, brought_forward(timetable, now)?);
    if cursor.next_run_at.is_none() {
        cursor.next_run_at = JobSettings::first_cursor(timetable, now)?;
    }
    Ok(cursor)
}

/// The cursor after a job with the timetable `old` (`None` if it can no longer be computed) gets a
/// new one.
pub(super) async fn after_change(
    conn: &mut Conn,
    job: &Job,
    old: Option<&Timetable>,
    new: NewTimetable<'_>,
) -> Result<Cursor, SaveError> {
    let NewTimetable { settings, timetable, now } = new;
    if !settings.is_enabled || is_used_up(job, settings) {
        return Ok(after_end(job, old, settings.is_enabled, now));
    }
    let old = old.filter(|_| has_fires(job));
    let mut cursor = settled(job, old, now, settings.is_enabled);
    let on_both_sides = old.map_or(Ok(Vec::new()), |old| old.moving_across(now));
    let moving = Moving { old: on_both_sides?, new: timetable.moving_across(now)? };
    let mut swallowed = Vec::new();
    for at in moving.swallowed(now) {
        if !has_fate(conn, job.id, at).await? {
            swallowed.push(at);
        }
    }
    record_swallowed(&mut cursor, swallowed);
    if cursor.next_run_at.is_none() {
        cursor.next_run_at = match timetable.is_list() {
            true => first_without_fate(conn, job, timetable, now).await?,
            false => timetable.next_but(now, &moving.decided(now, old.is_some()))?,
        };
    }
    if cursor.next_run_at.is_none() {
        cursor.next_run_at = timetable.last_visit(now)?;
    }
    Ok(cursor)
}

/// The cursor of a job that stops firing: disabled, deleted, or at its maximum number of fires.
pub(super) fn after_end(
    job: &Job,
    old: Option<&Timetable>,
    stays_enabled: bool,
    now: DateTime<Utc>,
) -> Cursor {
    let old = old.filter(|_| has_fires(job));
    let mut cursor = settled(job, old, now, stays_enabled);
    // A fire on its way does not arrive. A failing old timetable must not block disabling the job.
    let on_both_sides = old.map_or_else(Vec::new, |old| old.moving_across(now).unwrap_or_default());
    let on_their_way = on_both_sides.into_iter().filter(|fire| fire.nominal <= now);
    cursor.skipped.extend(on_their_way.map(|fire| single(fire.nominal, SkipReason::Disabled)));
    cursor
}

/// Whether a job with these settings has reached its maximum number of fires.
fn is_used_up(job: &Job, settings: &JobSettings) -> bool {
    settings.max_runs.is_some_and(|runs| job.state.fired_count >= runs)
}

/// Whether the job has fire times at present.
fn has_fires(job: &Job) -> bool {
    job.settings.is_enabled && !is_used_up(job, &job.settings)
}

/// Fires with the nominal time and the moved time on different sides of now.
struct Moving {
    old: Vec<Fire>,
    new: Vec<Fire>,
}

impl Moving {
    /// Fires that the change would swallow: fires on their way that the new timetable does not move
    /// past now, at their nominal time, and fires that it moves forward to before now, at that
    /// time.
    fn swallowed(&self, now: DateTime<Utc>) -> Vec<DateTime<Utc>> {
        let on_their_way = self.old.iter().filter(|fire| fire.nominal <= now);
        let stranded = on_their_way.filter(|fire| !contains(&self.new, fire)).map(|fire| fire.nominal);
        let forward = self.new.iter().filter(|fire| fire.nominal > now);
        stranded.chain(forward.filter(|fire| !contains(&self.old, fire)).map(|fire| fire.at)).collect()
    }

    /// Nominal fires that are decided although the new timetable fires them after now: those that
    /// were moved forward, and, after an earlier timetable, those that move later only now.
    fn decided(&self, now: DateTime<Utc>, had_timetable: bool) -> Vec<DateTime<Utc>> {
        let brought = self.old.iter().filter(|fire| fire.nominal > now);
        let moving_on = self.new.iter().filter(|fire| fire.nominal <= now && had_timetable);
        brought.chain(moving_on.filter(|fire| !contains(&self.old, fire))).map(|fire| fire.nominal).collect()
    }
}

fn contains(fires: &[Fire], fire: &Fire) -> bool {
    fires.iter().any(|other| other.nominal == fire.nominal)
}

/// Fires that a new timetable moves forward to before now.
fn brought_forward(timetable: &Timetable, now: DateTime<Utc>) -> Result<Vec<DateTime<Utc>>, SaveError> {
    let moving = timetable.moving_across(now)?;
    let recent = now - TimeDelta::days(1);
    // A new job owes only the fires of today.
    Ok(moving
        .into_iter()
        .filter(|fire| fire.nominal > now && fire.at >= recent)
        .map(|fire| fire.at)
        .collect())
}

/// Keeps the latest owed fire due, unless another is due, and records the rest.
fn record_swallowed(cursor: &mut Cursor, mut swallowed: Vec<DateTime<Utc>>) {
    swallowed.sort_unstable();
    if cursor.next_run_at.is_none() {
        cursor.next_run_at = swallowed.pop();
    }
    cursor.skipped.extend(swallowed.into_iter().map(|at| single(at, SkipReason::Misfire)));
}

fn single(at: DateTime<Utc>, reason: SkipReason) -> SkippedRange {
    SkippedRange { first: at, last: at, count: Count::Exact(1), reason }
}

/// Settles the old timetable up to now. The latest due fire stays the cursor, unless the job is
/// being disabled.
fn settled(job: &Job, old: Option<&Timetable>, now: DateTime<Utc>, stays_enabled: bool) -> Cursor {
    let held = old.and_then(|old| held(job, old, now));
    let mut cursor = held.unwrap_or_else(|| Cursor::unchanged(job));
    let settled_until = cursor.settled_until;
    let due = cursor.next_run_at.filter(|next| *next <= now && job.settings.is_enabled);
    let done = old.map(|old| match due {
        Some(cursor) => {
            let held_by = (!stays_enabled).then_some(SkipReason::Disabled);
            decide(&Situation { held_by, ..all_late(old, settled_until, cursor, now) })
                .map(|decision| (decision.fires.into_iter().next(), decision.skipped))
        }
        None => settle_quiet(old, settled_until, now).map(|skipped| (None, skipped)),
    });
    cursor.is_computed = true;
    cursor.settled_until = now.max(settled_until);
    // The only known fire of a timetable that cannot be computed.
    cursor.next_run_at = due.filter(|_| stays_enabled);
    if let Some(Ok((kept, mut skipped))) = done {
        cursor.next_run_at = kept;
        cursor.skipped.append(&mut skipped);
    }
    cursor
}

/// The position after the held due fires are recorded as paused; `None` without any.
///
/// A timetable that fails here also fails in the scheduler, which then disables the job with the
/// reason.
pub(super) fn held(job: &Job, timetable: &Timetable, now: DateTime<Utc>) -> Option<Cursor> {
    if !job.state.has_pause() || !job.settings.is_enabled {
        return None;
    }
    let until = job.state.paused_until.map_or(now, |end| now.min(end - TICK));
    let cursor = job.state.next_run_at.filter(|cursor| *cursor <= until)?;
    let situation = Situation {
        timetable,
        settled_until: job.state.settled_until,
        cursor,
        now: until,
        misfire: MisfirePolicy::Skip,
        grace: None,
        overlap: OverlapPolicy::Allow,
        load: Load { open: 0, max_instances: 1 },
        runs_left: None,
        held_by: Some(SkipReason::PausedJob),
        limit: 1,
    };
    let decision = decide(&situation).ok()?;
    let moved = Cursor::moved(job, decision.next, decision.settled_until);
    Some(Cursor { skipped: decision.skipped, ..moved })
}

/// A job whose due fires are all late, so that only the latest one fires.
fn all_late(
    timetable: &Timetable,
    settled_until: DateTime<Utc>,
    cursor: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Situation<'_> {
    Situation {
        timetable,
        settled_until,
        cursor,
        // A fire at exactly this time counts as late.
        now: now + TICK,
        misfire: MisfirePolicy::FireOnce,
        grace: Some(std::time::Duration::ZERO),
        overlap: OverlapPolicy::Allow,
        load: Load { open: 0, max_instances: 1 },
        runs_left: None,
        held_by: None,
        limit: 1,
    }
}

/// The first undecided time in a list, even if past. Times whose records retention deleted are
/// decided, and a deleted job has no fire times.
async fn first_without_fate(
    conn: &mut Conn,
    job: &Job,
    timetable: &Timetable,
    now: DateTime<Utc>,
) -> Result<Option<DateTime<Utc>>, SaveError> {
    let over = job.state.deleted_at.map(|_| now).max(job.state.ledger_starts_at);
    let mut next = JobSettings::first_cursor(timetable, now)?;
    while let Some(at) = next.filter(|at| *at <= now) {
        if over.is_none_or(|over| at > over) && !has_fate(conn, job.id, at).await? {
            break;
        }
        next = timetable.next_after(at)?;
    }
    Ok(next)
}

statement! {
    /// A run or a skip has this fire time.
    HasFate = "cursor/job_fire_has_fate.sql", (job: JobId as SqlUuid, at: DateTime<Utc> as Timestamptz) -> Bool
}

async fn has_fate(conn: &mut Conn, job: JobId, at: DateTime<Utc>) -> DbResult<bool> {
    Ok(HasFate { job, at }.get_result(conn).await?)
}
