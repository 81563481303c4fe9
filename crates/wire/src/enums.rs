//! Closed vocabularies; each variant is sent as a fixed word.
//!
//! Enums of requests list only the words that this release accepts, so the error for another word
//! lists exactly those.

use std::fmt;

/// A word outside its vocabulary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// The given word.
    pub word: String,
    /// The accepted words.
    pub allowed: &'static [&'static str],
}

impl fmt::Display for UnknownWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is unknown; use one of {}", self.word, self.allowed.join(", "))
    }
}

impl std::error::Error for UnknownWord {}

macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name { $($(#[$variant_meta])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every variant, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// Every word, in the order of declaration.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// Returns the word of the variant.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, UnknownWord> {
                let known = Self::ALL.iter().copied().find(|known| known.as_str() == word);
                known.ok_or_else(|| UnknownWord { word: word.to_owned(), allowed: Self::WORDS })
            }
        }
    };
}

words! {
    /// Type of an event.
    EventType {
        /// A job was created.
        JobCreated = "job_created",
        /// A job was changed.
        JobUpdated = "job_updated",
        /// A client paused a job.
        JobPaused = "job_paused",
        /// A client resumed a job.
        JobResumed = "job_resumed",
        /// A client enabled a job.
        JobEnabled = "job_enabled",
        /// A client disabled a job, or the scheduler disabled one that it can no longer schedule.
        JobDisabled = "job_disabled",
        /// A client deleted a job.
        JobDeleted = "job_deleted",
        /// A client restored a deleted job.
        JobRestored = "job_restored",
        /// A task function was created.
        FunctionCreated = "function_created",
        /// A task function was changed.
        FunctionUpdated = "function_updated",
        /// A task function was deleted.
        FunctionDeleted = "function_deleted",
        /// A client paused a task function.
        FunctionPaused = "function_paused",
        /// A client resumed a task function.
        FunctionResumed = "function_resumed",
        /// A client activated a task function: it accepts jobs again.
        FunctionActivated = "function_activated",
        /// A client deactivated a task function: it accepts no jobs.
        FunctionDeactivated = "function_deactivated",
        /// A queue was created.
        QueueCreated = "queue_created",
        /// A queue was changed: paused, resumed, or its limits.
        QueueUpdated = "queue_updated",
        /// A client paused a queue.
        QueuePaused = "queue_paused",
        /// A client resumed a queue.
        QueueResumed = "queue_resumed",
        /// A client deleted a queue.
        QueueDeleted = "queue_deleted",
        /// A project was created.
        ProjectCreated = "project_created",
        /// A project was changed.
        ProjectUpdated = "project_updated",
        /// A client deleted a project.
        ProjectDeleted = "project_deleted",
        /// A client paused a project.
        ProjectPaused = "project_paused",
        /// A client resumed a project.
        ProjectResumed = "project_resumed",
        /// A template was created.
        TemplateCreated = "template_created",
        /// A template was changed.
        TemplateUpdated = "template_updated",
        /// A client deleted a template.
        TemplateDeleted = "template_deleted",
        /// The operator paused the tenant.
        TenantPaused = "tenant_paused",
        /// The operator resumed the tenant.
        TenantResumed = "tenant_resumed",
        /// An attempt has started.
        ScheduleExecutionStarted = "schedule_execution_started",
        /// An attempt has ended, with any outcome.
        ScheduleExecutionCompleted = "schedule_execution_completed",
        /// An attempt was lost with its worker.
        ScheduleExecutionLost = "schedule_execution_lost",
        /// A run became a dead letter.
        DispatchDeadLetter = "dispatch_dead_letter",
        /// A run expired before its first attempt.
        DispatchExpired = "dispatch_expired",
        /// Fire times passed without a dispatch, and the misfire policy does not catch them up.
        RunMissed = "run_missed",
        /// A waiting run was cancelled.
        DispatchCancelled = "dispatch_cancelled",
        /// A client requested to stop a running run.
        DispatchCancelRequested = "dispatch_cancel_requested",
        /// A client retried a finished run.
        DispatchRetried = "dispatch_retried",
        /// A client discarded a dead letter.
        DeadLetterDiscarded = "dead_letter_discarded",
        /// A worker has registered.
        WorkerOnline = "worker_online",
        /// A worker has stopped cleanly.
        WorkerStopped = "worker_stopped",
        /// The lease of a worker has expired.
        WorkerOffline = "worker_offline",
        /// The operator requested that a worker claims no new runs.
        WorkerDrainRequested = "worker_drain_requested",
        /// The operator withdrew that request.
        WorkerDrainEnded = "worker_drain_ended",
        /// Another scheduler became the leader.
        LeaderChanged = "leader_changed",
        /// The operator requested that the leader steps down.
        LeaderStepDownRequested = "leader_step_down_requested",
        /// Runs wait in a queue that no live worker serves.
        QueueUnserved = "queue_unserved",
        /// The queue is served again, or no run waits in it any more.
        QueueUnservedEnded = "queue_unserved_ended",
    }
}

words! {
    /// Why a position in the stream of events is no longer valid.
    ResetReason {
        /// Later events were removed by retention. The stream continues with the oldest stored
        /// event.
        Expired = "expired",
        /// The database is a different one, for example restored from a backup. The stream
        /// continues with new events.
        OtherDatabase = "other_database",
    }
}

words! {
    /// Why a stream of events ends.
    EndReason {
        /// The API stops; another instance may already run.
        Stopping = "stopping",
        /// The key is no longer valid, or no longer has the permission.
        Revoked = "revoked",
        /// The database is not reachable.
        Unavailable = "unavailable",
    }
}

words! {
    /// State of the leadership.
    LeaderState {
        /// A leader renews its lease.
        Live = "live",
        /// The lease of the last leader has expired, and no standby has taken over.
        Expired = "expired",
        /// No scheduler leads.
        None = "none",
    }
}

words! {
    /// Why an attempt is stuck.
    StuckReason {
        /// Its worker has been silent for longer than its lease, or is marked as lost.
        WorkerLost = "worker_lost",
        /// Its worker is alive, but has not ended it within its timeout.
        Overdue = "overdue",
        /// No claim names it, and its worker is gone or its timeout has passed.
        ClaimMissing = "claim_missing",
    }
}

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
    /// Order of a list by time of creation; a minus reverses it.
    TimeSort {
        /// Oldest first.
        CreatedAt = "created_at",
        /// Newest first.
        CreatedAtDown = "-created_at",
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
    /// Kind of a notification.
    MessageKind {
        /// A run has ended without success and has no retries left.
        Failure = "failure",
        /// Failures that became dead letters only.
        DeadLetter = "dead_letter",
        /// A fire time passed without a run, or a run expired before its first attempt.
        Missed = "missed",
        /// A run succeeded after a final failure.
        Recovery = "recovery",
        /// A test of the channel.
        Test = "test",
    }
}

words! {
    /// Progress of a notification delivery.
    DeliveryStatus {
        /// It waits to be sent.
        Waiting = "waiting",
        /// It is being sent, or waits for its next attempt.
        Sending = "sending",
        /// The receiver has accepted it.
        Sent = "sent",
        /// Its attempts are exhausted.
        Failed = "failed",
    }
}

words! {
    /// Result of a request to cancel.
    CancelState {
        /// The run is cancelled.
        Cancelled = "cancelled",
        /// The run is running; its worker stops it.
        Requested = "requested",
    }
}

words! {
    /// Decision on a dead letter.
    DeadLetterState {
        /// No decision yet.
        Open = "open",
        /// A new run retries it.
        Retried = "retried",
        /// It was discarded.
        Discarded = "discarded",
    }
}

words! {
    /// Which dead letters to list.
    DeadLetterChoice {
        /// Without a decision.
        Open = "open",
        /// Retried.
        Retried = "retried",
        /// Discarded.
        Discarded = "discarded",
        /// All.
        All = "all",
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

words! {
    /// Status of a run.
    RunStatus {
        /// It waits for a worker.
        Waiting = "waiting",
        /// A worker executes it.
        Running = "running",
        /// Its last attempt succeeded.
        Succeeded = "succeeded",
        /// Its only allowed attempt failed, or it expired before its first attempt.
        Failed = "failed",
        /// Its only allowed attempt timed out or was lost.
        TimedOut = "timed_out",
        /// A client or the overlap policy cancelled it.
        Cancelled = "cancelled",
        /// Its retries are exhausted, or it was lost too often.
        DeadLetter = "dead_letter",
    }
}

impl RunStatus {
    /// Returns whether the status is final.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

words! {
    /// Outcome of an attempt.
    AttemptStatus {
        /// The handler reported success.
        Succeeded = "succeeded",
        /// The handler reported a failure.
        Failed = "failed",
        /// It exceeded its timeout and was killed.
        TimedOut = "timed_out",
        /// It was cancelled and killed.
        Cancelled = "cancelled",
        /// Its worker disappeared; its progress is unknown.
        Lost = "lost",
        /// Its worker stopped, killed it and released the run. Not a failure.
        Released = "released",
    }
}

words! {
    /// Which runs a filter matches: those in one state, or those with any kind of failure.
    RunFilter {
        /// Runs that wait for a worker.
        Waiting = "waiting",
        /// Runs that a worker runs.
        Running = "running",
        /// Runs that succeeded.
        Succeeded = "succeeded",
        /// Runs without retries whose attempt failed, and runs that expired.
        Failed = "failed",
        /// Runs without retries whose attempt ran out of time or was lost.
        TimedOut = "timed_out",
        /// Cancelled runs.
        Cancelled = "cancelled",
        /// Runs with exhausted retries.
        DeadLetter = "dead_letter",
        /// Every kind of failure: `failed`, `timed_out` and `dead_letter`.
        Failing = "failing",
    }
}

words! {
    /// Which attempts a filter matches: those that ended in one way, or those with any kind of failure.
    AttemptFilter {
        /// Attempts that succeeded.
        Succeeded = "succeeded",
        /// Attempts that failed.
        Failed = "failed",
        /// Attempts that ran out of time.
        TimedOut = "timed_out",
        /// Cancelled attempts.
        Cancelled = "cancelled",
        /// Attempts whose worker disappeared.
        Lost = "lost",
        /// Attempts that a stopping worker handed back. Not a failure.
        Released = "released",
        /// Every kind of failure: `failed`, `timed_out` and `lost`.
        Failing = "failing",
    }
}

words! {
    /// State of a worker.
    WorkerStatus {
        /// Alive without attempts.
        Idle = "idle",
        /// Alive with attempts.
        Busy = "busy",
        /// Alive; finishes its attempts and claims no new runs.
        Draining = "draining",
        /// Its lease has expired; its runs were released.
        Offline = "offline",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_the_same_in_text_and_in_json() {
        for status in RunStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(*status));
            assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        }
        for policy in MisfirePolicy::ALL {
            assert_eq!(serde_json::from_value::<MisfirePolicy>(policy.as_str().into()).unwrap(), *policy);
        }
    }

    #[test]
    fn filters_take_every_state_and_failing() {
        let with_failing = |states: &[&'static str]| [states, &["failing"]].concat();
        assert_eq!(RunFilter::WORDS, with_failing(RunStatus::WORDS));
        assert_eq!(AttemptFilter::WORDS, with_failing(AttemptStatus::WORDS));
    }

    #[test]
    fn an_unknown_word_is_refused_with_those_that_are_known() {
        let in_json = serde_json::from_str::<OverlapPolicy>("\"wait\"").unwrap_err().to_string();
        let in_text = "wait".parse::<OverlapPolicy>().unwrap_err().to_string();
        for text in [in_json, in_text] {
            assert!(text.contains("skip") && text.contains("allow"), "{text}");
        }
    }
}
