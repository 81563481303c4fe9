//! Decides the effect of a batch of ends on the dependents: runs, skips, and met conditions. Pure.

use std::collections::HashMap;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Dependent, JobEnd};
use crate::dispatching::room::Rooms;
use sched_domain::dependency::{Edge, End, Run, follow};
use sched_domain::ids::{DispatchId, JobId, TenantId, time_ordered};
use sched_timetable::SkipReason;

pub(super) type EdgesByJob = HashMap<(TenantId, JobId), Vec<Edge>>;

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) dispatches: Vec<Dispatch>,
    pub(super) skips: Vec<NewSkip>,
    pub(super) marks: Vec<Mark>,
}

#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) id: DispatchId,
    pub(super) tenant_id: TenantId,
    pub(super) job_id: JobId,
    pub(super) run: Run,
    pub(super) queue: String,
    pub(super) priority: i16,
    pub(super) job_version: i64,
    pub(super) args: Option<serde_json::Value>,
    pub(super) is_queued: bool,
    pub(super) expires_at: Option<DateTime<Utc>>,
}

#[derive(Debug)]
pub(super) struct NewSkip {
    pub(super) tenant_id: TenantId,
    pub(super) job_id: JobId,
    pub(super) at: DateTime<Utc>,
    pub(super) reason: SkipReason,
    pub(super) detail: String,
    pub(super) ended_by: DispatchId,
}

/// A change of an edge: its condition was met, or used up.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) tenant_id: TenantId,
    pub(super) job_id: JobId,
    pub(super) edge: Edge,
}

impl Plan {
    pub(super) fn of(
        ends: &[JobEnd],
        dependents: Vec<Dependent>,
        mut edges: EdgesByJob,
        now: DateTime<Utc>,
    ) -> Self {
        let mut by_job: HashMap<(TenantId, JobId), Vec<&JobEnd>> = HashMap::new();
        for end in ends {
            by_job.entry((end.tenant_id, end.job_id)).or_default().push(end);
        }
        let mut plan = Self::default();
        for dependent in dependents {
            let tenant = dependent.tenant_id;
            let mut after = edges.remove(&(tenant, dependent.id)).unwrap_or_default();
            let before = after.clone();
            let ended = after.iter().filter_map(|edge| by_job.get(&(tenant, edge.after))).flatten();
            let mut ends: Vec<End> = ended.map(|end| end.end()).collect();
            ends.sort_by_key(|end| (end.at, end.dispatch));
            let runs = follow(dependent.mode, &mut after, &ends);
            plan.mark(&dependent, after, &before);
            match dependent.blocker() {
                Some(blocker) => {
                    plan.skips.extend(EndIndex { by_job: &by_job }.skips(&dependent, &runs, blocker))
                }
                None => plan.dispatch(dependent, runs, now),
            }
        }
        plan
    }

    fn mark(&mut self, dependent: &Dependent, after: Vec<Edge>, before: &[Edge]) {
        let changed = after.into_iter().zip(before).filter(|(edge, before)| edge != *before);
        let Dependent { tenant_id, id: job_id, .. } = *dependent;
        self.marks.extend(changed.map(|(edge, _)| Mark { tenant_id, job_id, edge }));
    }

    /// Queues runs beyond `max_instances`, like manual triggers.
    fn dispatch(&mut self, dependent: Dependent, runs: Vec<Run>, now: DateTime<Utc>) {
        let Dependent { tenant_id, id: job_id, version, args, queue, priority, instances, .. } = dependent;
        let expires_at = dependent.start_within_seconds.map(|span| now + TimeDelta::seconds(span.into()));
        let mut rooms = Rooms::default();
        self.dispatches.extend(runs.into_iter().map(|run| Dispatch {
            id: DispatchId(time_ordered(now)),
            tenant_id,
            job_id,
            run,
            queue: queue.clone(),
            priority,
            job_version: version,
            args: args.clone(),
            is_queued: rooms.is_full_for((tenant_id, job_id), &instances),
            expires_at,
        }));
    }
}

/// The reason for which a dependent may not run.
#[derive(Debug, Clone, Copy)]
struct Blocker {
    reason: SkipReason,
    why: &'static str,
}

impl Dependent {
    fn blocker(&self) -> Option<Blocker> {
        let disabled = |why| Some(Blocker { reason: SkipReason::Disabled, why });
        if self.is_deleted {
            return disabled("the job is deleted");
        }
        if !self.is_enabled {
            return disabled("the job is disabled");
        }
        if !self.is_function_active {
            return disabled("its task function is inactive");
        }
        let reason = self.paused_by?;
        let why = match reason {
            SkipReason::PausedTenant => "its tenant is paused",
            SkipReason::PausedProject => "its project is paused",
            SkipReason::PausedQueue => "its queue is paused",
            SkipReason::PausedFunction => "its task function is paused",
            _ => "the job is paused",
        };
        Some(Blocker { reason, why })
    }
}

impl JobEnd {
    fn end(&self) -> End {
        End { job: self.job_id, dispatch: self.dispatch_id, status: self.status, at: self.ended_at }
    }
}

struct EndIndex<'a> {
    by_job: &'a HashMap<(TenantId, JobId), Vec<&'a JobEnd>>,
}

impl EndIndex<'_> {
    /// One skip for each run that the ends would have started.
    fn skips(&self, dependent: &Dependent, runs: &[Run], blocker: Blocker) -> Vec<NewSkip> {
        let skip = |run: &Run| NewSkip {
            tenant_id: dependent.tenant_id,
            job_id: dependent.id,
            at: run.at,
            reason: blocker.reason,
            detail: format!("to run after {}, but {}", self.of(dependent.tenant_id, run), blocker.why),
            ended_by: run.by,
        };
        runs.iter().map(skip).collect()
    }

    fn of(&self, tenant: TenantId, run: &Run) -> String {
        let ends = self.by_job.get(&(tenant, run.after)).into_iter().flatten();
        match ends.copied().find(|end| end.dispatch_id == run.by) {
            Some(end) => format!("{} ended as {} (run {})", end.job_name, end.status.public_name(), run.by),
            None => format!("run {} ended", run.by),
        }
    }
}
