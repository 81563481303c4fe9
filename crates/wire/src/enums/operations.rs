//! Vocabularies of the operation of an installation.

use std::fmt;

use super::UnknownWord;

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
    /// State of a scheduler.
    SchedulerStatus {
        /// Alive: its last heartbeat is within the lease.
        Online = "online",
        /// Silent for longer than the lease: it neither leads nor takes over.
        Offline = "offline",
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
