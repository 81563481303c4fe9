//! The small closed vocabularies of a schedule, each a Rust enum with the text the database and the API use.
//!
//! Only names: what a value means is said where it is used. Plain data, no concurrency; the one failure is an
//! unknown name, which yields an error that lists the known ones.

use std::{fmt, str::FromStr};

use super::error::{Quoted, ScheduleError};

macro_rules! named {
    ($(#[$doc:meta])* $name:ident in $field:literal { $($(#[$variant_doc:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant),+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as it is stored and sent.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = ScheduleError;

            fn from_str(text: &str) -> Result<Self, ScheduleError> {
                Self::ALL.iter().copied().find(|value| value.as_str() == text).ok_or_else(|| {
                    let known: Vec<&str> = Self::ALL.iter().map(|value| value.as_str()).collect();
                    ScheduleError::invalid($field, format!("{} is unknown; use one of {}", Quoted(text), known.join(", ")))
                })
            }
        }
    };
}

named! {
    /// The kind of a schedule.
    JobType in "job_type" {
        /// Fires at the wall-clock times of a crontab expression.
        Cron = "cron",
        /// Fires at a fixed distance from an anchor.
        Interval = "interval",
        /// Fires once, at an instant.
        OneOff = "oneoff",
        /// Fires only when asked.
        Manual = "manual",
    }
}

named! {
    /// What becomes of a wall-clock time that does not exist, because clocks were put forward over it.
    DstGap in "dst_gap" {
        /// It fires at the first instant after the gap.
        Shift = "shift",
        /// It does not fire.
        Skip = "skip",
    }
}

named! {
    /// What becomes of a wall-clock time that occurs twice, because clocks were put back over it.
    DstOverlap in "dst_overlap" {
        /// It fires at its first pass only.
        First = "first",
        /// It fires at its second pass only.
        Second = "second",
        /// It fires at both.
        Both = "both",
    }
}

named! {
    /// What becomes of a fire time that a calendar excludes.
    #[derive(Default)]
    CalendarRoll in "calendar_roll" {
        /// It does not fire.
        #[default]
        Skip = "skip",
        /// It moves to the same time of the next day at which that time is not excluded.
        NextBusinessDay = "next_business_day",
        /// It moves to the same time of the latest earlier day at which that time is not excluded.
        PreviousBusinessDay = "previous_business_day",
    }
}

named! {
    /// Why a fire time was deliberately not dispatched.
    SkipReason in "reason" {
        /// It passed without dispatch and the misfire policy does not catch it up.
        Misfire = "misfire",
        /// As many instances of the job as allowed were running.
        Overlap = "overlap",
        /// The job was paused.
        PausedJob = "paused_job",
        /// The project of the job was paused.
        PausedProject = "paused_project",
        /// The queue of the job was paused.
        PausedQueue = "paused_queue",
        /// The task function of the job was paused.
        PausedFunction = "paused_function",
        /// The tenant was paused.
        PausedTenant = "paused_tenant",
        /// A calendar excluded it.
        Calendar = "calendar",
        /// A quota of the tenant was used up.
        Quota = "quota",
        /// A daylight-saving transition suppressed it.
        DstSuppressed = "dst_suppressed",
        /// The job was disabled.
        Disabled = "disabled",
        /// The end of the job, or its number of runs, was reached.
        Ended = "ended",
    }
}

named! {
    /// What a change of the clocks did to a fire time.
    FireNote in "note" {
        /// The time on the clock that the schedule names does not exist; it was moved to the first instant after the gap.
        Shifted = "shifted",
        /// Its time on the clock occurs twice, and this is the first pass.
        FirstOfTwo = "first_of_two",
        /// Its time on the clock occurs twice, and this is the second pass.
        SecondOfTwo = "second_of_two",
    }
}
