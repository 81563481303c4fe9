//! Word lists of schedules.

text_enum! {
    pub enum JobType {
        /// Fires at the wall-clock times of a crontab expression.
        Cron = "cron",
        Interval = "interval",
        /// Fires once, at an instant.
        OneOff = "oneoff",
        /// Fires only when triggered.
        Manual = "manual",
    }
}

text_enum! {
    /// Policy for a wall-clock time that clocks skipped.
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
        First = "first",
        Second = "second",
        Both = "both",
    }
}

text_enum! {
    /// The days of a cron schedule that restricts both the day of the month and the day of the week.
    pub enum DayMatch {
        /// Those that match one of the fields.
        Either = "either",
        /// Those that match both fields.
        Both = "both",
    }
}

text_enum! {
    #[derive(Default)]
    pub enum CalendarRoll {
        /// It does not fire.
        #[default]
        Skip = "skip",
        /// The same time of the next day on which that time is not excluded.
        NextBusinessDay = "next_business_day",
        /// The same time of the latest earlier day on which that time is not excluded.
        PreviousBusinessDay = "previous_business_day",
    }
}

text_enum! {
    pub enum SkipReason {
        /// The misfire policy does not catch it up.
        Misfire = "misfire",
        Overlap = "overlap",
        PausedJob = "paused_job",
        PausedProject = "paused_project",
        PausedQueue = "paused_queue",
        PausedFunction = "paused_function",
        PausedTenant = "paused_tenant",
        Calendar = "calendar",
        Quota = "quota",
        DstSuppressed = "dst_suppressed",
        Disabled = "disabled",
        /// The end of the job, or its number of runs, was reached.
        Ended = "ended",
    }
}

text_enum! {
    pub enum FireNote {
        /// The named time does not exist; it was moved to the first instant after the gap.
        Shifted = "shifted",
        FirstOfTwo = "first_of_two",
        SecondOfTwo = "second_of_two",
    }
}

text_enum! {
    pub enum OverlapPolicy {
        Skip = "skip",
        Queue = "queue",
        CancelOldest = "cancel_oldest",
        Allow = "allow",
    }
}
