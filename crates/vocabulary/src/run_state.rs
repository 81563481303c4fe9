//! The states of a dispatch, and the only table of transitions between them.
//!
//! Every write of a state is an edge of [`DispatchStatus::apply`]; the SQL statements name the
//! expected state in their `WHERE`. Final states never change: a retry of a finished dispatch
//! creates a new one.

text_enum! {
    pub enum DispatchStatus {
        /// Waits to be claimed; entered by dispatch, by a retry and by a release.
        Pending = "PENDING",
        InProgress = "IN_PROGRESS",
        /// Final.
        Completed = "COMPLETED",
        /// Its only attempt failed and no retry was configured, or it expired before its first. Final.
        Failed = "FAILED",
        /// Its only attempt ran out of time or was lost, and no retry was configured. Final.
        Timeout = "TIMEOUT",
        /// By a user or the overlap policy. Final.
        Cancelled = "CANCELLED",
        /// Its retries are exhausted, or it killed too many workers. Final.
        DeadLetter = "DEAD_LETTER",
    }
}

text_enum! {
    pub enum Trigger {
        Scheduler = "scheduler",
        /// A user, in a session or with `schedctl`.
        Manual = "manual",
        /// A program, over the API.
        Api = "api",
        /// A command to run a finished dispatch again.
        Retry = "retry",
        Dependency = "dependency",
    }
}

text_enum! {
    /// A user's decision about a dead letter.
    pub enum Settlement {
        Retried = "retried",
        Discarded = "discarded",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DispatchEvent {
    Claim,
    Succeed,
    /// Failed, timed out or lost, and another attempt is due later.
    Retry,
    /// Failed without another attempt.
    Fail,
    /// Timed out or lost without another attempt.
    TimeOut,
    GiveUp,
    /// Its worker stops and hands it back; this costs no attempt.
    Release,
    Cancel,
    /// No worker started its first attempt in time.
    Expire,
}

impl DispatchEvent {
    pub const ALL: &'static [Self] = &[
        Self::Claim,
        Self::Succeed,
        Self::Retry,
        Self::Fail,
        Self::TimeOut,
        Self::GiveUp,
        Self::Release,
        Self::Cancel,
        Self::Expire,
    ];
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a dispatch that is {from} cannot take the event {event:?}")]
pub struct IllegalTransition {
    pub from: DispatchStatus,
    pub event: DispatchEvent,
}

impl DispatchStatus {
    /// The name in the API, on the command line and as a label of metrics.
    #[must_use]
    pub const fn public_name(self) -> &'static str {
        match self {
            Self::Pending => "waiting",
            Self::InProgress => "running",
            Self::Completed => "succeeded",
            Self::Failed => "failed",
            Self::Timeout => "timed_out",
            Self::Cancelled => "cancelled",
            Self::DeadLetter => "dead_letter",
        }
    }

    /// Fails if the state does not allow the event.
    pub const fn apply(self, event: DispatchEvent) -> Result<Self, IllegalTransition> {
        use DispatchEvent as Event;
        match (self, event) {
            (Self::Pending, Event::Claim) => Ok(Self::InProgress),
            (Self::InProgress, Event::Succeed) => Ok(Self::Completed),
            (Self::InProgress, Event::Retry | Event::Release) => Ok(Self::Pending),
            (Self::InProgress, Event::Fail) => Ok(Self::Failed),
            (Self::InProgress, Event::TimeOut) => Ok(Self::Timeout),
            (Self::InProgress, Event::GiveUp) => Ok(Self::DeadLetter),
            (Self::Pending | Self::InProgress, Event::Cancel) => Ok(Self::Cancelled),
            (Self::Pending, Event::Expire) => Ok(Self::Failed),
            (from, event) => Err(IllegalTransition { from, event }),
        }
    }

    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Pending | Self::InProgress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `from --> to: Event` lines of the diagram in the crate's README.
    fn documented_edges() -> Vec<String> {
        let readme = include_str!("../../model/README.md");
        let diagram = readme.split("```mermaid").nth(1).unwrap().split("```").next().unwrap();
        let mut edges: Vec<String> = diagram
            .lines()
            .map(str::trim)
            .filter(|l| l.contains("-->") && !l.contains("[*]"))
            .map(str::to_owned)
            .collect();
        edges.sort();
        edges
    }

    #[test]
    fn the_diagram_shows_exactly_the_allowed_transitions() {
        let mut edges = Vec::new();
        for from in DispatchStatus::ALL {
            for event in DispatchEvent::ALL {
                if let Ok(to) = from.apply(*event) {
                    edges.push(format!("{from} --> {to}: {event:?}"));
                }
            }
        }
        edges.sort();
        assert!(edges.len() >= 10);
        assert_eq!(edges, documented_edges());
    }

    #[test]
    fn final_states_take_no_event() {
        for state in DispatchStatus::ALL.iter().filter(|s| s.is_final()) {
            for event in DispatchEvent::ALL {
                assert_eq!(state.apply(*event), Err(IllegalTransition { from: *state, event: *event }));
            }
        }
    }

    #[test]
    fn words_and_variants_convert_both_ways() {
        for state in DispatchStatus::ALL {
            assert_eq!(state.as_str().parse(), Ok(*state));
        }
        let error = "RUNNING".parse::<DispatchStatus>().unwrap_err();
        assert!(error.to_string().contains("IN_PROGRESS"), "{error}");
    }
}
