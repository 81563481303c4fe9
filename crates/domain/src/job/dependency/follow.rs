//! Which ends of other jobs start a run of a job.
//!
//! Ends may arrive out of order or twice. Under `all`, an end counts only if it is later than the
//! last counted end of the same job. Under `any`, and with a single predecessor, every end starts
//! its own run; the key of the run prevents a second run for a repeated end. Pure: the caller
//! stores the met edges together with the runs, in one transaction.

use chrono::{DateTime, Utc};

use super::{AfterCondition, AfterMode};
use crate::ids::{DispatchId, JobId};
use crate::run_state::DispatchStatus;

/// A predecessor and its last end that counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    pub after: JobId,
    pub on: AfterCondition,
    /// Ends up to this instant precede the edge and do not count.
    pub since: DateTime<Utc>,
    /// The dispatch that met it since the last run.
    pub met_by: Option<DispatchId>,
    /// End of the latest dispatch that met it; kept after a run consumes it.
    pub met_at: Option<DateTime<Utc>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub job: JobId,
    pub dispatch: DispatchId,
    pub status: DispatchStatus,
    /// By the database's clock.
    pub at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// With several predecessors, the last one to end.
    pub after: JobId,
    pub by: DispatchId,
    pub at: DateTime<Utc>,
}

/// Applies `ends`, earliest first, and returns the runs they start. Marks the met edges in `edges`.
pub fn follow(mode: AfterMode, edges: &mut [Edge], ends: &[End]) -> Vec<Run> {
    let is_each_a_run = mode == AfterMode::Any || edges.len() == 1;
    let mut runs = Vec::new();
    for end in ends {
        let Some(edge) = edges.iter_mut().find(|edge| edge.after == end.job) else { continue };
        if !edge.on.is_met_by(end.status) || end.at <= edge.since {
            continue;
        }
        let run = Run { after: end.job, by: end.dispatch, at: end.at };
        let is_later = edge.met_at.is_none_or(|met_at| end.at > met_at);
        if is_later {
            edge.met_at = Some(end.at);
        }
        if is_each_a_run {
            edge.met_by = None;
            runs.push(run);
        } else if is_later {
            edge.met_by = Some(end.dispatch);
            if edges.iter().all(|edge| edge.met_by.is_some()) {
                edges.iter_mut().for_each(|edge| edge.met_by = None);
                runs.push(run);
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn job(name: char) -> JobId {
        JobId(Uuid::from_u128(name.into()))
    }

    fn edges(jobs: &str) -> Vec<Edge> {
        let edge = |name| Edge {
            after: job(name),
            on: AfterCondition::Success,
            since: at(0),
            met_by: None,
            met_at: None,
        };
        jobs.chars().map(edge).collect()
    }

    /// `a5`: a dispatch of job `a` succeeded at second 5; `!` for one that failed.
    fn ends(text: &str) -> Vec<End> {
        let end = |word: &str| {
            let (name, second) = word.split_at(1);
            let status =
                if second.ends_with('!') { DispatchStatus::Failed } else { DispatchStatus::Completed };
            let second: i64 = second.trim_end_matches('!').parse().unwrap();
            let name = name.chars().next().unwrap();
            let dispatch = DispatchId(Uuid::from_u128(u128::try_from(second).unwrap()));
            End { job: job(name), dispatch, status, at: at(second) }
        };
        text.split_whitespace().map(end).collect()
    }

    fn runs(mode: AfterMode, edges: &mut [Edge], text: &str) -> Vec<i64> {
        follow(mode, edges, &ends(text)).iter().map(|run| run.at.timestamp()).collect()
    }

    #[test]
    fn ends_start_the_expected_runs() {
        use AfterMode::{All, Any};
        for (mode, after, told, expected) in [
            (Any, "ab", "a1 b2 a3", vec![1, 2, 3]),
            (Any, "ab", "a1! c2 b3", vec![3]),
            (All, "a", "a1 a2", vec![1, 2]),
            // Out of order: each end of a single predecessor starts a run.
            (All, "a", "a2 a1", vec![2, 1]),
            (All, "ab", "a1 b2", vec![2]),
            (All, "ab", "a1 a2 a3", vec![]),
            (All, "ab", "a1 a2 b3 b4 a5", vec![3, 5]),
            (All, "ab", "a1 b2! b3", vec![3]),
            (All, "abc", "c1 a2 b3 a4 b5", vec![3]),
            (All, "ab", "a3 b4 a1 b5", vec![4]),
        ] {
            assert_eq!(runs(mode, &mut edges(after), told), expected, "{mode} of {after}: {told}");
        }
    }

    #[test]
    fn met_edges_persist_between_calls() {
        let mut both = edges("ab");
        assert_eq!(runs(AfterMode::All, &mut both, "a1"), Vec::<i64>::new());
        assert_eq!(runs(AfterMode::All, &mut both, "a1"), Vec::<i64>::new(), "told again");
        assert_eq!(both[0].met_by, Some(DispatchId(Uuid::from_u128(1))));
        assert_eq!(runs(AfterMode::All, &mut both, "b2"), [2]);
        assert!(both.iter().all(|edge| edge.met_by.is_none()));
        assert_eq!(runs(AfterMode::All, &mut both, "a1 b2"), Vec::<i64>::new(), "all of it told again");
        assert_eq!(runs(AfterMode::All, &mut both, "b3 a4"), [4]);
    }

    #[test]
    fn ends_before_the_edge_are_ignored() {
        for mode in AfterMode::ALL {
            let mut since_five = edges("a");
            since_five[0].since = at(5);
            assert_eq!(runs(*mode, &mut since_five, "a4 a5 a6"), [6], "{mode}");
        }
    }

    #[test]
    fn failure_condition_follows_failures() {
        for (on, expected) in [
            (AfterCondition::Success, vec![1]),
            (AfterCondition::Failure, vec![2]),
            (AfterCondition::Completion, vec![1, 2]),
        ] {
            let mut one = edges("a");
            one[0].on = on;
            assert_eq!(runs(AfterMode::All, &mut one, "a1 a2!"), expected, "{on}");
        }
    }
}
