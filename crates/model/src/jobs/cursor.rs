//! Where a job's cursor goes when its settings or its calendars change, so that no fire is lost or doubled by the change.
//!
//! A fire that is due at that moment has not been seen by the scheduler yet. It is not the change's to swallow: the latest
//! such fire stays the cursor, and the scheduler decides about it by itself; those before it, and all of them when the job is
//! disabled, are recorded as skipped, as is what the old calendars excluded until now. So is a fire on its way to a business
//! day that the new timetable does not know, or one that the new timetable brings forward to before now: it stays due. What
//! has had its fate does not come back: a listed instant, or a fire that only moves to a later day now that it has fired.
//! The books are settled up to the present and never further. What a pause of the job holds at that moment is the pause's: it is
//! recorded as such first. All of this happens under the lock on the job, in the transaction of the change; a process that dies in
//! between leaves the job and its books as they were.
//!
//! Each record names the one before it, and the job the last one, so that a record that is lost is missed.

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
    Count, Fire, MisfirePolicy, ScheduleError, Situation, SkipReason, SkippedRange, Timetable, decide,
    settle_quiet,
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
    /// Whether the next fire was computed, by the zone tables of this process.
    pub(super) is_computed: bool,
    /// What is to be recorded once the job is written.
    skipped: Vec<SkippedRange>,
}

impl Cursor {
    /// Where the job stands already.
    pub(super) fn unchanged(job: &Job) -> Self {
        let resting = Self::resting(job.state.next_run_at, job.state.settled_until);
        Self { is_computed: false, ..resting }
    }

    /// The leader is to look at the job at once; nothing is settled.
    pub(super) fn visit(job: &Job, now: DateTime<Utc>) -> Self {
        Self::resting(Some(now), job.state.settled_until)
    }

    fn resting(next_run_at: Option<DateTime<Utc>>, settled_until: DateTime<Utc>) -> Self {
        Self { next_run_at, settled_until, is_computed: true, skipped: Vec::new() }
    }

    /// Records what the change skips, after the record that was the `last` of the job.
    pub(super) async fn record(
        &self,
        conn: &mut Conn,
        tenant: TenantId,
        job: JobId,
        last: Option<DateTime<Utc>>,
    ) -> DbResult<()> {
        use skipped_fires as s;
        let mut ranges: Vec<&SkippedRange> = self.skipped.iter().collect();
        ranges.sort_by_key(|range| range.first);
        let mut follows = last;
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
        // A fire that was recorded before keeps its first record, and that has the same key.
        diesel::insert_into(s::table).values(rows).on_conflict_do_nothing().execute(conn).await?;
        diesel::update(scheduled_jobs::table.find((tenant, job)))
            .set(scheduled_jobs::last_fire_at.eq(follows))
            .execute(conn)
            .await?;
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
    let mut cursor = Cursor::resting(None, now);
    owe(&mut cursor, brought_forward(timetable, now)?);
    if cursor.next_run_at.is_none() {
        cursor.next_run_at = JobSettings::first_cursor(timetable, now)?;
    }
    Ok(cursor)
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
    if !settings.is_enabled || is_used_up(job, settings) {
        return Ok(after_end(job, old, settings.is_enabled, now));
    }
    let old = old.filter(|_| has_fires(job));
    let mut cursor = settled(job, old, now, settings.is_enabled);
    let on_both_sides = old.map_or(Ok(Vec::new()), |old| old.moving_across(now));
    let moving = Moving { old: on_both_sides?, new: timetable.moving_across(now)? };
    let mut owed = Vec::new();
    for at in moving.owed(now) {
        if !has_fate(conn, job.id, at).await? {
            owed.push(at);
        }
    }
    owe(&mut cursor, owed);
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

/// The cursor of a job with the timetable `old` that is to fire no more: it is disabled or deleted, or has fired as often as it may.
pub(super) fn after_end(
    job: &Job,
    old: Option<&Timetable>,
    stays_enabled: bool,
    now: DateTime<Utc>,
) -> Cursor {
    let old = old.filter(|_| has_fires(job));
    let mut cursor = settled(job, old, now, stays_enabled);
    // What is on its way does not arrive. An old timetable that fails must not keep a job from being disabled.
    let on_both_sides = old.map_or_else(Vec::new, |old| old.moving_across(now).unwrap_or_default());
    let on_their_way = on_both_sides.into_iter().filter(|fire| fire.nominal <= now);
    cursor.skipped.extend(on_their_way.map(|fire| single(fire.nominal, SkipReason::Disabled)));
    cursor
}

/// Whether a job with these settings has fired as often as it may.
fn is_used_up(job: &Job, settings: &JobSettings) -> bool {
    settings.max_runs.is_some_and(|runs| job.state.fired_count >= runs)
}

/// Whether the job, as it is, has fire times at all.
fn has_fires(job: &Job) -> bool {
    job.settings.is_enabled && !is_used_up(job, &job.settings)
}

/// Fires whose nominal time and the time they move to lie on different sides of now.
struct Moving {
    old: Vec<Fire>,
    new: Vec<Fire>,
}

impl Moving {
    /// When fires are owed that the change would swallow: those on their way that the new timetable does not move past now, at
    /// their nominal time, and those it brings forward to before now, at that time.
    fn owed(&self, now: DateTime<Utc>) -> Vec<DateTime<Utc>> {
        let on_their_way = self.old.iter().filter(|fire| fire.nominal <= now);
        let stranded = on_their_way.filter(|fire| !knows(&self.new, fire)).map(|fire| fire.nominal);
        let forward = self.new.iter().filter(|fire| fire.nominal > now);
        stranded.chain(forward.filter(|fire| !knows(&self.old, fire)).map(|fire| fire.at)).collect()
    }

    /// Nominal fires that have been decided about, though the new timetable has them fire after now: those that were brought
    /// forward, and those that move on only now, if the job had a timetable before.
    fn decided(&self, now: DateTime<Utc>, had_timetable: bool) -> Vec<DateTime<Utc>> {
        let brought = self.old.iter().filter(|fire| fire.nominal > now);
        let moving_on = self.new.iter().filter(|fire| fire.nominal <= now && had_timetable);
        brought.chain(moving_on.filter(|fire| !knows(&self.old, fire))).map(|fire| fire.nominal).collect()
    }
}

fn knows(fires: &[Fire], fire: &Fire) -> bool {
    fires.iter().any(|other| other.nominal == fire.nominal)
}

/// The fires that a timetable which is new brings forward to before now.
fn brought_forward(timetable: &Timetable, now: DateTime<Utc>) -> Result<Vec<DateTime<Utc>>, SaveError> {
    let moving = timetable.moving_across(now)?;
    let recent = now - TimeDelta::days(1);
    // A job that is new owes what would have fired today, and nothing older.
    Ok(moving
        .into_iter()
        .filter(|fire| fire.nominal > now && fire.at >= recent)
        .map(|fire| fire.at)
        .collect())
}

/// Keeps the latest of the owed fires due, unless another is, and records the others.
fn owe(cursor: &mut Cursor, mut owed: Vec<DateTime<Utc>>) {
    owed.sort_unstable();
    if cursor.next_run_at.is_none() {
        cursor.next_run_at = owed.pop();
    }
    cursor.skipped.extend(owed.into_iter().map(|at| single(at, SkipReason::Misfire)));
}

fn single(at: DateTime<Utc>, reason: SkipReason) -> SkippedRange {
    SkippedRange { first: at, last: at, count: Count::Exact(1), reason }
}

/// Settles the old timetable of a job up to now. The latest fire that is due stays the cursor, unless the job is being disabled.
fn settled(job: &Job, old: Option<&Timetable>, now: DateTime<Utc>, stays_enabled: bool) -> Cursor {
    let held = old.and_then(|old| held(job, old, now));
    let mut cursor = held.unwrap_or_else(|| Cursor::unchanged(job));
    let settled_until = cursor.settled_until;
    let due = cursor.next_run_at.filter(|next| *next <= now && job.settings.is_enabled);
    let done = old.map(|old| match due {
        Some(cursor) => settle_due(old, settled_until, cursor, now, stays_enabled),
        None => settle_quiet(old, settled_until, now).map(|skipped| (None, skipped)),
    });
    cursor.is_computed = true;
    cursor.settled_until = now.max(settled_until);
    // The one fire that is known of a timetable that cannot be computed is the cursor.
    cursor.next_run_at = due.filter(|_| stays_enabled);
    if let Some(Ok((kept, mut skipped))) = done {
        cursor.next_run_at = kept;
        cursor.skipped.append(&mut skipped);
    }
    cursor
}

/// Where the job stands once what its pause holds, of all that is due now, has been recorded as paused; `None` if that is nothing.
///
/// A timetable that fails here fails in the scheduler too, which then disables the job and says why.
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
    let moved = Cursor::resting(decision.next, decision.settled_until);
    Some(Cursor { skipped: decision.skipped, ..moved })
}

/// The latest fire that is due by a timetable, and what is skipped besides.
fn settle_due(
    old: &Timetable,
    settled_until: DateTime<Utc>,
    cursor: DateTime<Utc>,
    now: DateTime<Utc>,
    stays_enabled: bool,
) -> Result<(Option<DateTime<Utc>>, Vec<SkippedRange>), ScheduleError> {
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
    Ok((decision.fires.into_iter().next(), decision.skipped))
}

/// Of a list of instants, the first that has had no fate, even if it has passed. What retention has removed the records of has had its
/// fate, and while a job was deleted it had no fire times.
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
    /// Whether a fire time has a dispatch or lies in a skip.
    HasFate = "cursor/job_fire_has_fate.sql", (job: JobId as SqlUuid, at: DateTime<Utc> as Timestamptz) -> Bool
}

async fn has_fate(conn: &mut Conn, job: JobId, at: DateTime<Utc>) -> DbResult<bool> {
    Ok(HasFate { job, at }.get_result(conn).await?)
}
