//! The closed vocabularies, mapped one to one.
//!
//! The mappings are exhaustive both ways: a new variant needs a counterpart to compile.

use sched_model::definitions::functions::Change;
use sched_model::domain::attempt::AttemptOutcome;
use sched_model::domain::dependency::{AfterCondition, AfterMode};
use sched_model::domain::function::HandlerType;
use sched_model::domain::instance::WorkerStatus;
use sched_model::domain::job::{MisfireKind, OverlapPolicy, Scope};
use sched_model::domain::notification::{ChannelKind, DeliveryStatus, MessageKind, Occasion};
use sched_model::domain::retry::BackoffType;
use sched_model::domain::run_state::DispatchStatus;
use sched_model::domain::template::ParameterType;
use sched_model::domain::timetable::{CalendarRoll, DstGap, DstOverlap, FireNote, JobType};
use sched_model::jobs::JobStatus;

pub(crate) trait IntoDomain {
    type Domain;

    fn into_domain(self) -> Self::Domain;
}

pub(crate) trait IntoWire {
    type Wire;

    fn into_wire(self) -> Self::Wire;
}

macro_rules! requested {
    ($($wire:ident as $domain:ident { $($variant:ident),+ })+) => {$(
        impl IntoDomain for sched_wire::$wire {
            type Domain = $domain;

            fn into_domain(self) -> $domain {
                match self { $(Self::$variant => $domain::$variant),+ }
            }
        }
    )+};
}

macro_rules! answered {
    ($($domain:ident as $wire:ident { $($variant:ident),+ })+) => {$(
        impl IntoWire for $domain {
            type Wire = sched_wire::$wire;

            fn into_wire(self) -> sched_wire::$wire {
                match self { $(Self::$variant => sched_wire::$wire::$variant),+ }
            }
        }
    )+};
}

requested! {
    HandlerType as HandlerType { Process, Http, Native }
    Scope as Scope { BackupInfrastructure, System, Project }
    JobType as JobType { Cron, Interval, OneOff, Manual }
    DstGap as DstGap { Shift, Skip }
    CalendarRoll as CalendarRoll { Skip, NextBusinessDay, PreviousBusinessDay }
    DstOverlap as DstOverlap { First, Second, Both }
    MisfirePolicy as MisfireKind { Skip, FireOnce, FireAll }
    OverlapPolicy as OverlapPolicy { Skip, Queue, CancelOldest, Allow }
    AfterCondition as AfterCondition { Success, Failure, Completion }
    AfterMode as AfterMode { All, Any }
    BackoffType as BackoffType { Fixed, Linear, Exponential }
    ParameterType as ParameterType { String, Integer, Number, Boolean, Array, Object }
    JobStatus as JobStatus { Enabled, Paused, Disabled, Quarantined, Deleted }
    ChannelKind as ChannelKind { Webhook, Chat, Email }
    Occasion as Occasion { Failure, DeadLetter, Missed, Recovery }
    DeliveryStatus as DeliveryStatus { Waiting, Sending, Sent, Failed }
    WorkerStatus as WorkerStatus { Idle, Busy, Draining, Offline }
}

answered! {
    Scope as Scope { BackupInfrastructure, System, Project }
    JobType as JobType { Cron, Interval, OneOff, Manual }
    CalendarRoll as CalendarRoll { Skip, NextBusinessDay, PreviousBusinessDay }
    DstGap as DstGap { Shift, Skip }
    DstOverlap as DstOverlap { First, Second, Both }
    MisfireKind as MisfirePolicy { Skip, FireOnce, FireAll }
    AfterCondition as AfterCondition { Success, Failure, Completion }
    AfterMode as AfterMode { All, Any }
    BackoffType as BackoffType { Fixed, Linear, Exponential }
    ParameterType as ParameterType { String, Integer, Number, Boolean, Array, Object }
    OverlapPolicy as OverlapPolicy { Skip, Queue, CancelOldest, Allow }
    JobStatus as JobStatus { Enabled, Paused, Disabled, Quarantined, Deleted }
    FireNote as FireNote { Shifted, FirstOfTwo, SecondOfTwo }
    WorkerStatus as WorkerStatus { Idle, Busy, Draining, Offline }
    ChannelKind as ChannelKind { Webhook, Chat, Email }
    Occasion as Occasion { Failure, DeadLetter, Missed, Recovery }
    MessageKind as MessageKind { Failure, DeadLetter, Missed, Recovery, Test }
    DeliveryStatus as DeliveryStatus { Waiting, Sending, Sent, Failed }
    Change as Change { Created, Updated, Unchanged }
}

/// Maps the SQL states of runs and attempts to the words of the API, in both directions.
macro_rules! states {
    ($($domain:ident as $wire:ident { $($stored:ident = $shown:ident),+ $(,)? })+) => {$(
        impl IntoDomain for sched_wire::$wire {
            type Domain = $domain;

            fn into_domain(self) -> $domain {
                match self { $(Self::$shown => $domain::$stored),+ }
            }
        }

        impl IntoWire for $domain {
            type Wire = sched_wire::$wire;

            fn into_wire(self) -> sched_wire::$wire {
                match self { $(Self::$stored => sched_wire::$wire::$shown),+ }
            }
        }
    )+};
}

states! {
    DispatchStatus as RunStatus {
        Pending = Waiting,
        InProgress = Running,
        Completed = Succeeded,
        Failed = Failed,
        Timeout = TimedOut,
        Cancelled = Cancelled,
        DeadLetter = DeadLetter,
    }
    AttemptOutcome as AttemptStatus {
        Completed = Succeeded,
        Failed = Failed,
        Timeout = TimedOut,
        Cancelled = Cancelled,
        Lost = Lost,
        Released = Released,
        Expired = Expired,
    }
}

macro_rules! filters {
    ($($wire:ident of $domain:ident {
        $($word:ident = $stored:ident),+ ; Failing = $($failure:ident)|+
    })+) => {$(
        impl IntoDomain for sched_wire::$wire {
            type Domain = &'static [$domain];

            fn into_domain(self) -> &'static [$domain] {
                match self {
                    $(Self::$word => &[$domain::$stored],)+
                    Self::Failing => &[$($domain::$failure),+],
                }
            }
        }
    )+};
}

filters! {
    RunFilter of DispatchStatus {
        Waiting = Pending,
        Running = InProgress,
        Succeeded = Completed,
        Failed = Failed,
        TimedOut = Timeout,
        Cancelled = Cancelled,
        DeadLetter = DeadLetter;
        Failing = Failed | Timeout | DeadLetter
    }
    AttemptFilter of AttemptOutcome {
        Succeeded = Completed,
        Failed = Failed,
        TimedOut = Timeout,
        Cancelled = Cancelled,
        Lost = Lost,
        Released = Released,
        Expired = Expired;
        Failing = Failed | Timeout | Lost | Expired
    }
}

/// The API's word for a stored state; `None` for any other text.
pub(crate) fn state_word(stored: &str) -> Option<&'static str> {
    let run = stored.parse::<DispatchStatus>().ok().map(DispatchStatus::public_name);
    run.or_else(|| stored.parse::<AttemptOutcome>().ok().map(AttemptOutcome::public_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_for_one_state_matches_that_state() {
        for filter in sched_wire::RunFilter::ALL.iter().filter(|one| one.as_str() != "failing") {
            let [status] = filter.into_domain() else { panic!("{filter}") };
            assert_eq!(status.into_wire().as_str(), filter.as_str());
        }
        for filter in sched_wire::AttemptFilter::ALL.iter().filter(|one| one.as_str() != "failing") {
            let [outcome] = filter.into_domain() else { panic!("{filter}") };
            assert_eq!(outcome.into_wire().as_str(), filter.as_str());
        }
    }

    #[test]
    fn wire_and_domain_values_are_equal() {
        for status in sched_wire::RunStatus::ALL {
            assert_eq!(status.into_domain().into_wire(), *status);
            assert_eq!(status.into_domain().public_name(), status.as_str());
        }
        for status in sched_wire::AttemptStatus::ALL {
            assert_eq!(status.into_domain().into_wire(), *status);
            assert_eq!(status.into_domain().public_name(), status.as_str());
        }
        for status in WorkerStatus::ALL {
            assert_eq!(status.into_wire().as_str(), status.public_name());
        }
        for policy in sched_wire::MisfirePolicy::ALL {
            assert_eq!(policy.into_domain().as_str(), policy.as_str());
        }
        for policy in sched_wire::OverlapPolicy::ALL {
            assert_eq!(policy.into_domain().as_str(), policy.as_str());
        }
        for on in sched_wire::AfterCondition::ALL {
            assert_eq!(on.into_domain().as_str(), on.as_str());
        }
        for mode in sched_wire::AfterMode::ALL {
            assert_eq!(mode.into_domain().as_str(), mode.as_str());
        }
        for note in FireNote::ALL {
            assert_eq!(note.into_wire().as_str(), note.as_str());
        }
        for kind in sched_wire::ChannelKind::ALL {
            assert_eq!(kind.into_domain().as_str(), kind.as_str());
        }
        for occasion in sched_wire::Occasion::ALL {
            assert_eq!(occasion.into_domain().as_str(), occasion.as_str());
        }
        for kind in MessageKind::ALL {
            assert_eq!(kind.into_wire().as_str(), kind.as_str());
        }
        for status in sched_wire::DeliveryStatus::ALL {
            assert_eq!(status.into_domain().as_str(), status.as_str());
        }
        for roll in sched_wire::CalendarRoll::ALL {
            assert_eq!(roll.into_domain().as_str(), roll.as_str());
        }
        for kind in sched_wire::JobType::ALL {
            assert_eq!(kind.into_domain().as_str(), kind.as_str());
        }
        for scope in sched_wire::Scope::ALL {
            assert_eq!(scope.into_domain().as_str(), scope.as_str());
        }
    }
}
