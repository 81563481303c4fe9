//! The closed vocabularies, each an enum whose variants are sent as fixed words.
//!
//! Enums that stand in requests list only what this release can do, so that the error for anything else lists exactly
//! that. Plain data; the one failure is an unknown word, whose error lists the known ones.

use std::fmt;

/// A word that is none of those allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownWord {
    /// What was given.
    pub word: String,
    /// What would have been accepted.
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

            /// The word that is sent.
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
    /// What an event tells.
    EventType {
        /// A job was made.
        JobCreated = "job_created",
        /// A job was changed.
        JobUpdated = "job_updated",
        /// Somebody paused a job.
        JobPaused = "job_paused",
        /// Somebody resumed a job.
        JobResumed = "job_resumed",
        /// Somebody enabled a job.
        JobEnabled = "job_enabled",
        /// Somebody disabled a job, or the scheduler one that it can no longer schedule.
        JobDisabled = "job_disabled",
        /// Somebody deleted a job.
        JobDeleted = "job_deleted",
        /// Somebody restored a deleted job.
        JobRestored = "job_restored",
        /// A task function was made.
        FunctionCreated = "function_created",
        /// A task function was changed.
        FunctionUpdated = "function_updated",
        /// A task function was deleted.
        FunctionDeleted = "function_deleted",
        /// Somebody paused a task function.
        FunctionPaused = "function_paused",
        /// Somebody resumed a task function.
        FunctionResumed = "function_resumed",
        /// Somebody has a task function accept jobs again.
        FunctionActivated = "function_activated",
        /// Somebody has a task function accept no jobs.
        FunctionDeactivated = "function_deactivated",
        /// A queue was made.
        QueueCreated = "queue_created",
        /// A queue was changed: paused, resumed, or given other limits.
        QueueUpdated = "queue_updated",
        /// Somebody paused a queue.
        QueuePaused = "queue_paused",
        /// Somebody resumed a queue.
        QueueResumed = "queue_resumed",
        /// Somebody deleted a queue.
        QueueDeleted = "queue_deleted",
        /// A project was made.
        ProjectCreated = "project_created",
        /// A project was changed.
        ProjectUpdated = "project_updated",
        /// Somebody deleted a project.
        ProjectDeleted = "project_deleted",
        /// Somebody paused a project.
        ProjectPaused = "project_paused",
        /// Somebody resumed a project.
        ProjectResumed = "project_resumed",
        /// A template was made.
        TemplateCreated = "template_created",
        /// A template was changed.
        TemplateUpdated = "template_updated",
        /// Somebody deleted a template.
        TemplateDeleted = "template_deleted",
        /// The operator of the installation paused the tenant.
        TenantPaused = "tenant_paused",
        /// The operator of the installation resumed the tenant.
        TenantResumed = "tenant_resumed",
        /// An attempt has begun.
        ScheduleExecutionStarted = "schedule_execution_started",
        /// An attempt has ended, whatever became of it.
        ScheduleExecutionCompleted = "schedule_execution_completed",
        /// An attempt was lost with its worker.
        ScheduleExecutionLost = "schedule_execution_lost",
        /// A run was given up for good.
        DispatchDeadLetter = "dispatch_dead_letter",
        /// A run was given up because nobody had begun it in time.
        DispatchExpired = "dispatch_expired",
        /// Fire times passed without a run, and the misfire policy does not make up for them.
        RunMissed = "run_missed",
        /// Somebody cancelled a run that waited.
        DispatchCancelled = "dispatch_cancelled",
        /// Somebody wants a running run stopped.
        DispatchCancelRequested = "dispatch_cancel_requested",
        /// Somebody had a finished run run again.
        DispatchRetried = "dispatch_retried",
        /// Somebody is done with a dead letter.
        DeadLetterDiscarded = "dead_letter_discarded",
        /// A worker has registered.
        WorkerOnline = "worker_online",
        /// A worker has ended in order.
        WorkerStopped = "worker_stopped",
        /// The lease of a worker has expired.
        WorkerOffline = "worker_offline",
        /// An operator asked a worker to take nothing new.
        WorkerDrainRequested = "worker_drain_requested",
        /// An operator took that back.
        WorkerDrainEnded = "worker_drain_ended",
        /// A scheduler has taken over.
        LeaderChanged = "leader_changed",
        /// An operator asked the leader to step down.
        LeaderStepDownRequested = "leader_step_down_requested",
        /// Runs wait in a queue that no living worker serves.
        QueueUnserved = "queue_unserved",
        /// The queue is served again, or nothing waits in it any more.
        QueueUnservedEnded = "queue_unserved_ended",
    }
}

words! {
    /// Why a position in the stream of events is none any more.
    ResetReason {
        /// Events that followed it are too old and were removed. The stream goes on with the oldest that there are.
        Expired = "expired",
        /// The database is another one by now, such as one restored from a backup. The stream goes on with what happens now.
        OtherDatabase = "other_database",
    }
}

words! {
    /// Why a stream of events ends.
    EndReason {
        /// The API stops; another one may be there already.
        Stopping = "stopping",
        /// The key is good no more, or allows this no more.
        Revoked = "revoked",
        /// The database cannot be asked.
        Unavailable = "unavailable",
    }
}

words! {
    /// Whether a scheduler leads.
    LeaderState {
        /// One leads and renews its lease.
        Live = "live",
        /// The lease of the one that led has expired, and nobody has taken over.
        Expired = "expired",
        /// None leads.
        None = "none",
    }
}

words! {
    /// Why an attempt is stuck.
    StuckReason {
        /// Its worker has been silent for longer than its lease, or is given up.
        WorkerLost = "worker_lost",
        /// Its worker lives, and has not ended it though its time is over.
        Overdue = "overdue",
        /// No claim names it, and its worker is gone or its time over.
        ClaimMissing = "claim_missing",
    }
}

words! {
    /// What a job is at the moment; of several the one that says most.
    JobStatus {
        /// Its schedule fires.
        Enabled = "enabled",
        /// Its schedule does not fire for a while.
        Paused = "paused",
        /// Somebody disabled it.
        Disabled = "disabled",
        /// The scheduler disabled it, and says why.
        Quarantined = "quarantined",
        /// Somebody deleted it; it can be restored.
        Deleted = "deleted",
    }
}

words! {
    /// The order of a list of jobs; with a minus the other way round. Jobs that have no such thing come last either way.
    JobSort {
        /// By name.
        Name = "name",
        /// By name, the last first.
        NameDown = "-name",
        /// By when they fire next, the soonest first.
        NextRunAt = "next_run_at",
        /// By when they fire next, the latest first.
        NextRunAtDown = "-next_run_at",
        /// By when their latest finished attempt started, the oldest first.
        LastRunAt = "last_run_at",
        /// By when their latest finished attempt started, the newest first.
        LastRunAtDown = "-last_run_at",
        /// By when their settings last changed, the oldest first.
        UpdatedAt = "updated_at",
        /// By when their settings last changed, the newest first.
        UpdatedAtDown = "-updated_at",
    }
}

words! {
    /// The order of a list of what happens, by when it was created; with a minus the other way round.
    TimeSort {
        /// The oldest first.
        CreatedAt = "created_at",
        /// The newest first.
        CreatedAtDown = "-created_at",
    }
}

words! {
    /// What kind of change made a version of a job.
    JobChange {
        /// It is new.
        Created = "created",
        /// Its settings were changed.
        Updated = "updated",
        /// It was enabled.
        Enabled = "enabled",
        /// It was disabled.
        Disabled = "disabled",
        /// It was paused, or its pause changed.
        Paused = "paused",
        /// Its pause was ended.
        Resumed = "resumed",
        /// It was deleted.
        Deleted = "deleted",
        /// It was restored.
        Restored = "restored",
        /// An earlier version was taken back.
        RolledBack = "rolled_back",
    }
}

words! {
    /// How a worker runs a function.
    HandlerType {
        /// A program of the operating system.
        Process = "process",
        /// A Rust function built into a worker.
        Native = "native",
        /// A request to a web server.
        Http = "http",
    }
}

words! {
    /// How a notification channel is reached.
    ChannelKind {
        /// A request with a JSON body, signed after Standard Webhooks where a secret is named.
        Webhook = "webhook",
        /// An incoming webhook of a chat, such as Slack, Mattermost or Teams, which takes `{"text": "..."}`.
        Chat = "chat",
        /// E-mail.
        Email = "email",
    }
}

words! {
    /// What a notification rule may tell.
    Occasion {
        /// A run has ended for good without success.
        Failure = "failure",
        /// The same, of those that became dead letters.
        DeadLetter = "dead_letter",
        /// A fire time passed without a run, or nobody began one in time.
        Missed = "missed",
        /// A run succeeded after one that had failed for good.
        Recovery = "recovery",
    }
}

words! {
    /// What a notification tells.
    MessageKind {
        /// A run has ended for good without success.
        Failure = "failure",
        /// The same, of those that became dead letters.
        DeadLetter = "dead_letter",
        /// A fire time passed without a run, or nobody began one in time.
        Missed = "missed",
        /// A run succeeded after one that had failed for good.
        Recovery = "recovery",
        /// Somebody tried the channel.
        Test = "test",
    }
}

words! {
    /// How far a notification has come.
    DeliveryStatus {
        /// It waits for its turn.
        Waiting = "waiting",
        /// It is being sent, or will be tried again.
        Sending = "sending",
        /// It was taken by the other side.
        Sent = "sent",
        /// It was given up.
        Failed = "failed",
    }
}

words! {
    /// What a command to cancel has come to.
    CancelState {
        /// The run is cancelled.
        Cancelled = "cancelled",
        /// It runs; its worker stops it.
        Requested = "requested",
    }
}

words! {
    /// What somebody decided about a dead letter.
    DeadLetterState {
        /// Nothing yet.
        Open = "open",
        /// A run of its own runs it again.
        Retried = "retried",
        /// It is done with as it is.
        Discarded = "discarded",
    }
}

words! {
    /// Which dead letters to list.
    DeadLetterChoice {
        /// Those about which nothing is decided.
        Open = "open",
        /// Those that are run again.
        Retried = "retried",
        /// Those that are done with as they are.
        Discarded = "discarded",
        /// All of them.
        All = "all",
    }
}

words! {
    /// To whom a job belongs.
    Scope {
        /// Backs up or restores the main schema; its history lives outside it.
        BackupInfrastructure = "backup_infrastructure",
        /// Serves the installation.
        System = "system",
        /// Belongs to a project.
        Project = "project",
    }
}

words! {
    /// The kind of a schedule.
    JobType {
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

words! {
    /// What becomes of a wall-clock time that does not exist, because clocks were put forward over it.
    DstGap {
        /// It fires at the first instant after the gap.
        Shift = "shift",
        /// It does not fire.
        Skip = "skip",
    }
}

words! {
    /// What becomes of a wall-clock time that occurs twice, because clocks were put back over it.
    DstOverlap {
        /// It fires at its first pass only.
        First = "first",
        /// It fires at its second pass only.
        Second = "second",
        /// It fires at both.
        Both = "both",
    }
}

words! {
    /// What becomes of a fire time that a calendar excludes.
    CalendarRoll {
        /// It does not fire.
        Skip = "skip",
        /// It moves to the same time of the next day at which that time is not excluded.
        NextBusinessDay = "next_business_day",
        /// It moves to the same time of the latest earlier day at which that time is not excluded.
        PreviousBusinessDay = "previous_business_day",
    }
}

words! {
    /// What a change of the clocks did to a fire time.
    FireNote {
        /// Its time on the clock does not exist; it was moved to the first instant after the gap.
        Shifted = "shifted",
        /// Its time on the clock occurs twice, and this is the first pass.
        FirstOfTwo = "first_of_two",
        /// Its time on the clock occurs twice, and this is the second pass.
        SecondOfTwo = "second_of_two",
    }
}

words! {
    /// What becomes of fire times that passed without dispatch.
    MisfirePolicy {
        /// They are skipped, and the skip recorded.
        Skip = "skip",
        /// The latest fires, the others are skipped.
        FireOnce = "fire_once",
        /// All fire, up to a cap.
        FireAll = "fire_all",
    }
}

words! {
    /// What becomes of a fire while `max_instances` runs of the job are open.
    OverlapPolicy {
        /// It is skipped, and the skip recorded.
        Skip = "skip",
        /// It is dispatched, and waits in line until others have ended.
        Queue = "queue",
        /// It is dispatched, and the oldest open run is cancelled for it.
        CancelOldest = "cancel_oldest",
        /// It is dispatched all the same.
        Allow = "allow",
    }
}

words! {
    /// How a job must end so that another runs after it.
    AfterCondition {
        /// It has succeeded.
        Success = "success",
        /// It has failed for good: failed, timed out, or a dead letter.
        Failure = "failure",
        /// Either of these.
        Completion = "completion",
    }
}

words! {
    /// Of several jobs to run after, which must have ended.
    AfterMode {
        /// Each of them, since the last run that this made.
        All = "all",
        /// Any of them, every time.
        Any = "any",
    }
}

words! {
    /// How the delay grows from one retry to the next.
    BackoffType {
        /// Always the base.
        Fixed = "fixed",
        /// Base times the number of the retry.
        Linear = "linear",
        /// Base doubled with every retry.
        Exponential = "exponential",
    }
}

words! {
    /// State of a run.
    RunStatus {
        /// Waits for a worker.
        Waiting = "waiting",
        /// A worker runs it.
        Running = "running",
        /// Its last attempt succeeded.
        Succeeded = "succeeded",
        /// Its only attempt failed, or it expired before its first.
        Failed = "failed",
        /// Its only attempt ran out of time or was lost.
        TimedOut = "timed_out",
        /// Somebody cancelled it.
        Cancelled = "cancelled",
        /// Its retries are exhausted.
        DeadLetter = "dead_letter",
    }
}

impl RunStatus {
    /// Whether the state never changes again.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Waiting | Self::Running)
    }
}

words! {
    /// How an attempt ended.
    AttemptStatus {
        /// It did what it should.
        Succeeded = "succeeded",
        /// It ran and failed.
        Failed = "failed",
        /// It ran out of time and was killed.
        TimedOut = "timed_out",
        /// It was cancelled and killed.
        Cancelled = "cancelled",
        /// Its worker was given up; nobody knows how far it came.
        Lost = "lost",
        /// Its worker stopped, killed it and handed the run back. Not a failure.
        Released = "released",
    }
}

words! {
    /// What a worker is doing.
    WorkerStatus {
        /// Alive and without work.
        Idle = "idle",
        /// Alive and running something.
        Busy = "busy",
        /// Alive, finishes what it runs and takes nothing new.
        Draining = "draining",
        /// Its lease has expired; what it ran was given to others.
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
    fn an_unknown_word_is_refused_with_those_that_are_known() {
        let in_json = serde_json::from_str::<OverlapPolicy>("\"wait\"").unwrap_err().to_string();
        let in_text = "wait".parse::<OverlapPolicy>().unwrap_err().to_string();
        for text in [in_json, in_text] {
            assert!(text.contains("skip") && text.contains("allow"), "{text}");
        }
    }
}
