//! The room of a job: how many more of its runs may be open before the next ones are queued.
//!
//! The rule exists in Rust, for statements that return a locked job's counters, and in SQL
//! (`room/room.sql`), for statements that select jobs by their room. A test compares the two. A
//! caller that acts on the result holds the lock on the job, as every transaction that changes the
//! counters does. The counters may still contain ended attempts, so the real room is at
//! least the result ([`crate::running::job_counters`]).

use std::collections::HashMap;

use diesel::Queryable;
use diesel::sql_types::{Int4, Text};

use sched_domain::ids::{JobId, TenantId};
use sched_domain::job::OverlapPolicy;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Queryable)]
pub struct Instances {
    pub overlap_policy: OverlapPolicy,
    pub max_instances: i32,
    /// Open runs, including the queued ones.
    pub active: i32,
    /// Runs that wait for other runs of the job to end.
    pub queued: i32,
}

pub(crate) type InstancesColumns = (Text, Int4, Int4, Int4);

impl Instances {
    /// How many more runs may be open beside those that are not queued; `None` for any number.
    ///
    /// Zero or less means that a new run is queued. The number is negative after `max_instances`
    /// was lowered.
    #[must_use]
    pub const fn room(&self) -> Option<i32> {
        match self.overlap_policy {
            OverlapPolicy::Allow => None,
            OverlapPolicy::Skip | OverlapPolicy::Queue | OverlapPolicy::CancelOldest => {
                Some(self.max_instances - (self.active - self.queued))
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rooms(HashMap<(TenantId, JobId), Option<i32>>);

impl Rooms {
    /// Gives a run a place; true if there is none, so that the run is queued.
    ///
    /// `instances` are the counters from before the batch.
    pub(crate) fn is_full_for(&mut self, job: (TenantId, JobId), instances: &Instances) -> bool {
        match self.0.entry(job).or_insert_with(|| instances.room()) {
            None => false,
            Some(room) if *room > 0 => {
                *room -= 1;
                false
            }
            Some(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn instances(overlap_policy: OverlapPolicy, max_instances: i32, active: i32, queued: i32) -> Instances {
        Instances { overlap_policy, max_instances, active, queued }
    }

    #[test]
    fn room_ignores_queued_runs_and_may_be_negative() {
        assert_eq!(instances(OverlapPolicy::Queue, 3, 5, 4).room(), Some(2));
        assert_eq!(instances(OverlapPolicy::Skip, 1, 3, 0).room(), Some(-2));
        assert_eq!(instances(OverlapPolicy::Allow, 1, 3, 0).room(), None);
    }

    #[test]
    fn runs_of_a_batch_take_the_room_in_order() {
        let (mut rooms, narrow) = (Rooms::default(), instances(OverlapPolicy::Queue, 2, 1, 0));
        let job = |number| (TenantId(Uuid::nil()), JobId(Uuid::from_u128(number)));
        let mut is_full = |number, instances| rooms.is_full_for(job(number), instances);
        assert_eq!([is_full(1, &narrow), is_full(1, &narrow)], [false, true]);
        assert!(!is_full(2, &narrow));
        let wide = instances(OverlapPolicy::Allow, 1, 9, 0);
        assert_eq!([is_full(3, &wide), is_full(3, &wide)], [false, false]);
    }
}
