//! Vocabularies of definitions.

use std::fmt;

use super::UnknownWord;

words! {
    /// State of a job; if several apply, the most severe.
    JobStatus {
        /// Its schedule fires.
        Enabled = "enabled",
        /// Its schedule is paused.
        Paused = "paused",
        /// A client disabled it.
        Disabled = "disabled",
        /// The scheduler disabled it and recorded the reason.
        Quarantined = "quarantined",
        /// A client deleted it; it can be restored.
        Deleted = "deleted",
    }
}

words! {
    /// Order of a list of jobs; a minus reverses it. Jobs without the value come last in both
    /// directions.
    JobSort {
        /// By name.
        Name = "name",
        /// By name, descending.
        NameDown = "-name",
        /// By the next fire time, earliest first.
        NextRunAt = "next_run_at",
        /// By the next fire time, latest first.
        NextRunAtDown = "-next_run_at",
        /// By the start of the latest finished attempt, oldest first.
        LastRunAt = "last_run_at",
        /// By the start of the latest finished attempt, newest first.
        LastRunAtDown = "-last_run_at",
        /// By the last change of the settings, oldest first.
        UpdatedAt = "updated_at",
        /// By the last change of the settings, newest first.
        UpdatedAtDown = "-updated_at",
    }
}

words! {
    /// Kind of change that created a version of a job.
    JobChange {
        /// The job was created.
        Created = "created",
        /// Its settings were changed.
        Updated = "updated",
        /// It was enabled.
        Enabled = "enabled",
        /// It was disabled.
        Disabled = "disabled",
        /// It was paused, or its pause was changed.
        Paused = "paused",
        /// Its pause was ended.
        Resumed = "resumed",
        /// It was deleted.
        Deleted = "deleted",
        /// It was restored.
        Restored = "restored",
        /// An earlier version was restored by a roll-back.
        RolledBack = "rolled_back",
    }
}

words! {
    /// Origin of a value that applies.
    SettingOrigin {
        /// The job sets it.
        Job = "job",
        /// The task function of the job sets it.
        Function = "function",
        /// A setting of the installation.
        Installation = "installation",
    }
}

words! {
    /// How a worker runs a function.
    HandlerType {
        /// A program.
        Process = "process",
        /// A Rust function built into a worker.
        Native = "native",
        /// An HTTP request.
        Http = "http",
    }
}

words! {
    /// Transport of a notification channel.
    ChannelKind {
        /// An HTTP request with a JSON body, signed after Standard Webhooks if a secret is named.
        Webhook = "webhook",
        /// An incoming webhook of a chat that accepts `{"text": "..."}`, such as Slack, Mattermost
        /// or Teams.
        Chat = "chat",
        /// E-mail.
        Email = "email",
    }
}

words! {
    /// Occasion of a notification rule.
    Occasion {
        /// A run has ended without success and has no retries left.
        Failure = "failure",
        /// Failures that became dead letters only.
        DeadLetter = "dead_letter",
        /// A fire time passed without a run, or a run expired before its first attempt.
        Missed = "missed",
        /// A run succeeded after a final failure.
        Recovery = "recovery",
    }
}

words! {
    /// Owner of a job.
    Scope {
        /// Backs up or restores the main schema; its history is stored outside that schema.
        BackupInfrastructure = "backup_infrastructure",
        /// Serves the installation.
        System = "system",
        /// Belongs to a project.
        Project = "project",
    }
}

words! {
    /// Kind of a schedule.
    JobType {
        /// Fires at the wall-clock times of a crontab expression.
        Cron = "cron",
        /// Fires at a fixed period from an anchor.
        Interval = "interval",
        /// Fires once, at an instant.
        OneOff = "oneoff",
        /// Fires only when triggered.
        Manual = "manual",
    }
}

words! {
    /// Rule for a wall-clock time that does not exist because clocks were put forward.
    DstGap {
        /// It fires at the first instant after the gap.
        Shift = "shift",
        /// It does not fire.
        Skip = "skip",
    }
}

words! {
    /// Rule for a wall-clock time that occurs twice because clocks were put back.
    DstOverlap {
        /// It fires at its first occurrence only.
        First = "first",
        /// It fires at its second occurrence only.
        Second = "second",
        /// It fires at both occurrences.
        Both = "both",
    }
}

words! {
    /// Rule for a fire time that a calendar excludes.
    CalendarRoll {
        /// It does not fire.
        Skip = "skip",
        /// It moves to the same wall-clock time of the next day on which that time is not excluded.
        NextBusinessDay = "next_business_day",
        /// It moves to the same wall-clock time of the latest earlier day on which that time is not
        /// excluded.
        PreviousBusinessDay = "previous_business_day",
    }
}

words! {
    /// Effect of a clock change on a fire time.
    FireNote {
        /// Its wall-clock time does not exist; it moved to the first instant after the gap.
        Shifted = "shifted",
        /// Its wall-clock time occurs twice; this is the first occurrence.
        FirstOfTwo = "first_of_two",
        /// Its wall-clock time occurs twice; this is the second occurrence.
        SecondOfTwo = "second_of_two",
    }
}

words! {
    /// Rule for fire times that passed without a dispatch.
    MisfirePolicy {
        /// They are skipped, and the skip is recorded.
        Skip = "skip",
        /// The latest one fires, the earlier ones are skipped.
        FireOnce = "fire_once",
        /// All of them fire, up to `misfire_cap`.
        FireAll = "fire_all",
    }
}

words! {
    /// Rule for a fire while `max_instances` runs of the job are open.
    OverlapPolicy {
        /// It is skipped, and the skip is recorded.
        Skip = "skip",
        /// It is dispatched and queued until an earlier run ends.
        Queue = "queue",
        /// It is dispatched, and the oldest open run is cancelled.
        CancelOldest = "cancel_oldest",
        /// It is dispatched and runs at the same time.
        Allow = "allow",
    }
}

words! {
    /// Required outcome of a job before a dependent job starts.
    AfterCondition {
        /// It has succeeded.
        Success = "success",
        /// It failed with no retries left: failed, timed out, or a dead letter.
        Failure = "failure",
        /// Any of these outcomes.
        Completion = "completion",
    }
}

words! {
    /// Which of several dependencies must have ended.
    AfterMode {
        /// Each of them, since the last run that they started.
        All = "all",
        /// Any of them, each time.
        Any = "any",
    }
}

words! {
    /// Growth of the delay from one retry to the next.
    BackoffType {
        /// Always the base delay.
        Fixed = "fixed",
        /// Base delay times the number of the retry.
        Linear = "linear",
        /// Base delay, doubled with every retry.
        Exponential = "exponential",
    }
}
