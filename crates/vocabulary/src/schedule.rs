//! Word lists of schedules.

text_enum! {
    /// The kind of a schedule.
    pub enum JobType {
        /// Fires at the wall-clock times of a crontab expression.
        Cron = "cron",
        /// Fires at a fixed distance from an anchor.
        Interval = "interval",
        /// Fires once, at an instant.
        OneOff = "oneoff",
        /// Fires only when triggered.
        Manual = "manual",
    }
}

text_enum! {
    /// Policy for a wall-clock time that does not exist, because clocks skipped it.
    pub enum DstGap {
        /// It fires at the first instant after the gap.
        Shift = "shift",
        /// It does not fire.
        Skip = "skip",
    }
}

text_enum! {
    /// Policy for a wall-clock time that occurs twice, because clocks were put back.
    pub enum DstOverlap {
        /// It fires at its first pass only.
        First = "first",
        /// It fires at its second pass only.
        Second = "second",
        /// It fires at both.
        Both = "both",
    }
}

text_enum! {
    /// Policy for a fire time that a calendar excludes.
    #[derive(Default)]
    pub enum CalendarRoll {
        /// It does not fire.
        #[default]
        Skip = "skip",
        /// It moves to the same time of the next day at which that time is not excluded.
        NextBusinessDay = "next_business_day",
        /// It moves to the same time of the latest earlier day at which that time is not excluded.
        PreviousBusinessDay = "previous_business_day",
    }
}

text_enum! {
    /// Why a fire time was deliberately not dispatched.
    pub enum SkipReason {
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

text_enum! {
    /// What a change of the clocks did to a fire time.
    pub enum FireNote {
        /// The time on the clock that the schedule names does not exist; it was moved to the first instant after the gap.
        Shifted = "shifted",
        /// Its time on the clock occurs twice, and this is the first pass.
        FirstOfTwo = "first_of_two",
        /// Its time on the clock occurs twice, and this is the second pass.
        SecondOfTwo = "second_of_two",
    }
}

text_enum! {
    /// Policy for a fire while `max_instances` dispatches of the job are open.
    pub enum OverlapPolicy {
        /// It is skipped, and the skip recorded.
        Skip = "skip",
        /// It waits its turn.
        Queue = "queue",
        /// The oldest open dispatch is cancelled for it.
        CancelOldest = "cancel_oldest",
        /// It is dispatched all the same.
        Allow = "allow",
    }
}
