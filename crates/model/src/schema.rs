//! The tables, as the migrations create them. @generated
//!
//! `scripts/check-schema --write` writes this file from a freshly migrated database, and a test
//! (`tests/schema.rs`) compares both. Arrays never contain NULL, by constraints and statements.

#![expect(
    clippy::doc_markdown,
    reason = "these are the comments of the database, where back-quotes mean nothing"
)]

diesel::table! {
    /// Keys for programs that act in one tenant. The secret itself is never stored.
    api_keys (tenant_id, id) {
        /// The one tenant the key acts in.
        tenant_id -> Uuid,
        /// Random identifier.
        id -> Uuid,
        /// Member that owns the key and limits its rights; NULL for a key of the tenant.
        user_id -> Nullable<Uuid>,
        /// Purpose of the key, for people.
        name -> Text,
        /// Public part of the key, for lookups and logs.
        key_prefix -> Text,
        /// Keyed 256-bit hash of the whole key.
        key_hash -> Bytea,
        /// Permissions, within those of the owner; empty means all of them. A tenant key may do exactly its scopes.
        scopes -> Array<Text>,
        /// The key is rejected after this time; NULL never expires.
        expires_at -> Nullable<Timestamptz>,
        /// Revocation time; NULL while the key is valid.
        revoked_at -> Nullable<Timestamptz>,
        /// Last use, coarse, so that a call does not cost a write.
        last_used_at -> Nullable<Timestamptz>,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Key of the key ring that computed the hash; NULL if there was no ring.
        hash_key_id -> Nullable<Text>,
        /// E-mail address, key or component that created it.
        created_src -> Text,
        /// E-mail address, key or component that revoked it; NULL while it is valid.
        revoked_src -> Nullable<Text>,
    }
}

diesel::table! {
    /// Finished attempts by the minute of their start, kept for a month. The history of earlier attempts is in job_execution_log.
    attempt_minutes (tenant_id, minute, status, slot) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Minute of the start, by the database clock.
        minute -> Timestamptz,
        /// Outcome, as in job_execution_log.
        status -> Text,
        /// Part of the total, of one of several processes.
        slot -> Int2,
        /// Number of attempts.
        attempts -> Int8,
        /// Sum of their durations.
        duration_ms -> Int8,
    }
}

diesel::table! {
    /// Audit events, written in the transaction of the change. Never updated; deleted by age only.
    audit_log (id) {
        /// Identifier.
        id -> Int8,
        /// Time of the change, by the database clock.
        created_at -> Timestamptz,
        /// Tenant of the change; NULL for the installation.
        tenant_id -> Nullable<Uuid>,
        /// E-mail address, key prefix or component that made the change.
        actor -> Text,
        /// Action.
        action -> Text,
        /// Kind of the changed resource.
        target_type -> Text,
        /// Identifier of the changed resource.
        target_id -> Text,
        /// Resource before the change, without secrets; NULL if it was created.
        before -> Nullable<Jsonb>,
        /// Resource after the change, without secrets; NULL if it was removed.
        after -> Nullable<Jsonb>,
        /// Request that caused it, as in the logs.
        request_id -> Nullable<Text>,
        /// Client address of the request, as reported by trusted proxies; NULL if no request caused the change.
        address -> Nullable<Text>,
    }
}

diesel::table! {
    /// Named sets of local dates and windows (holidays, freezes) on which the jobs that name them do not fire.
    calendars (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant; jobs refer to it.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Exclusions: dates, yearly, weekly, windows, rules (RFC 5545), except; and the time zone.
        definition -> Jsonb,
        /// Increases with every change.
        version -> Int8,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Component or e-mail address that created the row.
        created_src -> Text,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
        /// Component or e-mail address of the last change.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Whether a pause or a limit may keep runs from being claimed; one row.
    claim_restrictions (is_only) {
        /// Always true: there is one row.
        is_only -> Bool,
        /// True while a tenant, project, function or queue is paused, or a queue or the running runs of a tenant have a limit. Set at once; cleared by the leader some seconds after the last of them.
        is_restricted -> Bool,
    }
}

diesel::table! {
    /// Runs in DEAD_LETTER, and the decisions about them. A row goes with its run.
    dead_letters (tenant_id, dispatch_id) {
        /// The run, whose state stays DEAD_LETTER.
        dispatch_id -> Uuid,
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Project of the job at that time, if any.
        project_id -> Nullable<Uuid>,
        /// The job.
        job_id -> Uuid,
        /// Queue it waited in.
        queue -> Text,
        /// Error class of the last attempt; NULL without one.
        error_class -> Nullable<Text>,
        /// Time of the final state, by the database clock.
        died_at -> Timestamptz,
        /// Decision: retried (another run repeats it) or discarded; NULL while open.
        settled_as -> Nullable<Text>,
        /// Time of the decision, by the database clock; NULL while open.
        settled_at -> Nullable<Timestamptz>,
        /// User, key or component that decided; NULL while open.
        settled_by -> Nullable<Text>,
        /// Reason for people, if given.
        settled_reason -> Nullable<Text>,
        /// The run that repeats it; NULL unless retried.
        retried_as -> Nullable<Uuid>,
    }
}

diesel::table! {
    /// Events except starts and ends of attempts, by month. event_stream shows all.
    events (id, created_at) {
        /// Position within the transaction, a multiple of 65,536. Ids can commit out of order: see transaction_id.
        id -> Int8,
        /// Time of the event, by the database clock.
        created_at -> Timestamptz,
        /// Tenant of the event; NULL for events of the installation.
        tenant_id -> Nullable<Uuid>,
        /// Project, if any.
        project_id -> Nullable<Uuid>,
        /// Job, if any.
        job_id -> Nullable<Uuid>,
        /// Run, if any.
        dispatch_id -> Nullable<Uuid>,
        /// Type of the event.
        event_type -> Text,
        /// Details, by type.
        payload -> Jsonb,
    }
}

diesel::table! {
    /// Retention settings of the leader, for the built-in jobs; one row, absent before the first leader.
    housekeeping (is_only) {
        /// Always true: there is one row.
        is_only -> Bool,
        /// Days to keep finished runs, skips, history and events.
        finished_days -> Int4,
        /// Days to keep dead letters.
        dead_letter_days -> Int4,
        /// Days to keep the audit log and the terms of leadership.
        audit_days -> Int4,
        /// Time to keep the idempotency keys of triggers, in seconds.
        idempotency_key_seconds -> Int8,
        /// Old months of history are dropped, or detached for an archiver.
        history_expiry -> Text,
        /// Silence after which a standby is removed from the list, in seconds.
        stale_scheduler_seconds -> Int8,
        /// Time that a worker stays in the list after the leader gave it up, in seconds.
        stale_worker_seconds -> Int8,
        /// Last change by a leader, by the database clock.
        told_at -> Timestamptz,
        /// Last time a built-in job deleted all expired rows, by the database clock. If NULL or long ago, the leader deletes them itself.
        retained_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Jobs that run after other jobs, and the conditions met so far; without cycles.
    job_dependencies (tenant_id, job_id, after_job_id) {
        /// Owning tenant of both jobs.
        tenant_id -> Uuid,
        /// The dependent job.
        job_id -> Uuid,
        /// The job it runs after.
        after_job_id -> Uuid,
        /// Required outcome of a run of the other job.
        condition -> Text,
        /// Creation time, by the database clock; earlier ends do not count.
        since -> Timestamptz,
        /// Run that met the condition since the last run of the dependent job; NULL if none, and if each end is a run.
        met_by -> Nullable<Uuid>,
        /// End of the latest run that met the condition; kept when a run uses it up, so that no end counts twice.
        met_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Runs: one row for each fire time or trigger.
    job_dispatch (id) {
        /// Time-ordered identifier (UUID version 7, from the database clock).
        id -> Uuid,
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The job.
        job_id -> Uuid,
        /// Fire time; trigger time of a trigger; end of the other job for a dependency; for a retry, that of the retried run.
        scheduled_for -> Timestamptz,
        /// Creation time; minus scheduled_for it is the lateness.
        created_at -> Timestamptz,
        /// Version of the job at creation.
        job_version -> Int8,
        /// Term of that leader; NULL for triggers by hand.
        term -> Nullable<Int8>,
        /// Fire time of the job's previous record (scheduled_for or first_fire_at); NULL for the first, and for triggers.
        follows -> Nullable<Timestamptz>,
        /// Leader that created it; NULL for triggers by hand.
        scheduler_instance_id -> Nullable<Uuid>,
        /// NULL for a fire time; causing run of a dependency; computed from retry_of for a retry; else the trigger's own id. So it never takes the place of a fire time.
        trigger_id -> Nullable<Uuid>,
        /// Finished run that this one repeats by command; else NULL.
        retry_of -> Nullable<Uuid>,
        /// If the first attempt has not started by this time, the run ends as FAILED; NULL means never. Retries do not expire.
        expires_at -> Nullable<Timestamptz>,
        /// First time it could be claimed, or claimed again after the latest failed attempt.
        available_at -> Timestamptz,
        /// Earliest claim time; infinity while the run is queued behind other runs of its job; NULL unless PENDING.
        claimable_at -> Nullable<Timestamptz>,
        /// Latest claim; minus available_at it is the wait.
        claimed_at -> Nullable<Timestamptz>,
        /// Token of the latest claim; every write of that claim carries it.
        claim_token -> Nullable<Int8>,
        /// Worker of the latest claim.
        worker_id -> Nullable<Uuid>,
        /// Number of claimed attempts, lost and released ones included.
        attempt -> Int4,
        /// Number of failed attempts that were followed by a retry.
        retry_count -> Int4,
        /// Number of attempts lost with their worker; a run that loses too many is poison.
        lost_count -> Int4,
        /// Attempts released before anything ran. While it equals attempt, the run can still expire.
        unstarted_count -> Int4,
        /// Time of the final state; NULL before.
        completed_at -> Nullable<Timestamptz>,
        /// Time of a cancel request; the worker stops the attempt, and the run does not wait again.
        cancel_requested_at -> Nullable<Timestamptz>,
        /// 0 is claimed first, 100 last.
        priority -> Int2,
        /// True if the fire time was missed and caught up.
        is_catch_up -> Bool,
        /// State; the transitions are those of domain::run_state.
        status -> Text,
        /// Error message of the latest unsuccessful attempt.
        error_message -> Nullable<Text>,
        /// Queue it waits in.
        queue -> Text,
        /// Origin of the run.
        triggered_by -> Text,
        /// User or key that requested it; NULL for the scheduler.
        triggered_by_user -> Nullable<Text>,
        /// Idempotency key of the trigger; NULL without.
        idempotency_key -> Nullable<Text>,
        /// W3C trace context of the creator.
        traceparent -> Nullable<Text>,
        /// Arguments, if they differ from those of job_version; else NULL. The view run_arguments shows both.
        args -> Nullable<Jsonb>,
    }
}

diesel::table! {
    /// Ends of runs that dependent jobs may follow, until the leader has handled them. No foreign keys: a row is deleted within moments.
    job_ends (id) {
        /// Identifier, and the order of handling.
        id -> Int8,
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The job that ended.
        job_id -> Uuid,
        /// Its run.
        dispatch_id -> Uuid,
        /// Final state of the run. CANCELLED is not recorded: nothing runs after it.
        status -> Text,
        /// completed_at of the run, by the database clock.
        ended_at -> Timestamptz,
    }
}

diesel::table! {
    /// Attempts of system and project jobs, one row per finished attempt, by month of the start. They outlive run and job, so there are no foreign keys.
    job_execution_log (tenant_id, id, started_at) {
        /// Time-ordered identifier of the attempt (UUID version 7, from the database clock).
        id -> Uuid,
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Project of the job; NULL for jobs of other scopes.
        project_id -> Nullable<Uuid>,
        /// The job.
        job_id -> Uuid,
        /// The run.
        dispatch_id -> Uuid,
        /// Number of the attempt within its run, from 1 without gaps.
        attempt -> Int4,
        /// Outcome. LOST: the leader gave its worker up. RELEASED: its worker stopped and returned it. EXPIRED: no attempt began in time, so the row is a record of the run, without a worker.
        status -> Text,
        /// Fire time, or trigger time.
        scheduled_for -> Timestamptz,
        /// Start, by the database clock.
        started_at -> Timestamptz,
        /// End, by the database clock.
        completed_at -> Timestamptz,
        /// Duration in milliseconds, by the worker's monotonic clock (by the database clock for LOST).
        duration_ms -> Int8,
        /// Exit code of a process, or HTTP status.
        exit_code -> Nullable<Int4>,
        /// Result of the handler.
        result -> Nullable<Jsonb>,
        /// Stable error class, for programs.
        error_class -> Nullable<Text>,
        /// Error message, for people.
        error_message -> Nullable<Text>,
        /// Location of the error, if the handler reported one.
        traceback -> Nullable<Text>,
        /// Metrics reported by the handler.
        metrics -> Nullable<Jsonb>,
        /// Output written in all, kept or not, in bytes.
        output_bytes -> Int8,
        /// The worker.
        worker_id -> Nullable<Uuid>,
        /// Claim token of the attempt.
        claim_token -> Int8,
        /// Origin of the run.
        triggered_by -> Text,
    }
}

diesel::table! {
    /// Output of attempts of system and project jobs, in chunks, by month of their start.
    job_execution_output (tenant_id, execution_id, stream, chunk, started_at) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The attempt.
        execution_id -> Uuid,
        /// Start of the attempt; decides the partition.
        started_at -> Timestamptz,
        /// Output stream.
        stream -> Text,
        /// Position in the stream, from 0.
        chunk -> Int4,
        /// Text; NUL and bytes that are not UTF-8 are replaced.
        content -> Text,
        /// Bytes dropped between the previous chunk and this one.
        dropped_bytes -> Int8,
        /// Write time, by the database clock.
        written_at -> Timestamptz,
    }
}

diesel::table! {
    /// Job skeletons with parameters. A job records its template and does not depend on it.
    job_templates (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Parameters by name, each with type, default, choices, and whether it is required.
        parameters -> Jsonb,
        /// Fields of the job, in which {{name}} is replaced by the value of a parameter.
        job -> Jsonb,
        /// Increases with every change.
        version -> Int8,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Component or e-mail address that created the row.
        created_src -> Text,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
        /// Component or e-mail address of the last change.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Responses to requests with an Idempotency-Key, returned again for a repeated request. No secrets: requests about those accept no key.
    kept_answers (tenant_id, caller, key) {
        /// Tenant of the request.
        tenant_id -> Uuid,
        /// Prefix of the API key, or e-mail address of the token. Keys of different callers are independent.
        caller -> Text,
        /// Idempotency-Key of the client.
        key -> Text,
        /// SHA-256 of method, path, parameters and body; detects another request with the same key.
        fingerprint -> Bytea,
        /// Status code of the response.
        status -> Int2,
        /// Location header; NULL without one.
        location -> Nullable<Text>,
        /// ETag header, with quotes; NULL without one.
        etag -> Nullable<Text>,
        /// Response body, JSON as sent; NULL without one.
        body -> Nullable<Text>,
        /// First response, by the database clock; decides the expiry.
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// Registered workers, and past ones as long as history is kept: the hosts of attempts.
    known_workers (worker_id) {
        /// Process identity, as in worker_registration.
        worker_id -> Uuid,
        /// Host; a label only.
        hostname -> Text,
        /// Registration time, by the database clock.
        registered_at -> Timestamptz,
        /// End of the registration; NULL while registered.
        gone_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// All terms of leadership.
    leader_terms (term) {
        /// Increases with every change of leader.
        term -> Int8,
        /// The leader.
        instance_id -> Uuid,
        /// Its host.
        hostname -> Text,
        /// Its process id.
        pid -> Int4,
        /// Start of the term, by the database clock.
        started_at -> Timestamptz,
        /// Length of the lease that each heartbeat of the leader renewed; NULL if unknown.
        lease_ms -> Nullable<Int4>,
        /// When the lease expired, if it did before the end of the term. No scheduler led from then on.
        lease_expired_at -> Nullable<Timestamptz>,
        /// Resignation or replacement; NULL for the current term.
        ended_at -> Nullable<Timestamptz>,
        /// The leader resigned, its lease expired, or an operator requested the step-down.
        end_reason -> Nullable<Text>,
    }
}

diesel::table! {
    /// Recent output of running attempts. Deleted when the attempt ends; the record is job_execution_output.
    live_output (tenant_id, dispatch_id, claim_token, seq) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The run.
        dispatch_id -> Uuid,
        /// Claim token of the attempt.
        claim_token -> Int8,
        /// Order of the pieces of an attempt over all its streams, from 1. The oldest pieces are deleted, so the first numbers may be missing.
        seq -> Int8,
        /// Output stream.
        stream -> Text,
        /// Bytes of the stream before this piece, as stored text. A gap to the previous piece was not kept.
        starts_at -> Int8,
        /// Text; NUL and bytes that are not UTF-8 are replaced.
        content -> Text,
        /// Write time, by the database clock.
        written_at -> Timestamptz,
    }
}

diesel::table! {
    /// Latest progress of running attempts. Deleted when the attempt ends.
    live_progress (tenant_id, dispatch_id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The run.
        dispatch_id -> Uuid,
        /// Claim token of the attempt; progress of an earlier claim does not apply to the current one.
        claim_token -> Int8,
        /// From 0 to 100; NULL if unknown.
        percent -> Nullable<Float4>,
        /// Current activity, for people.
        message -> Text,
        /// Time of the report, by the database clock.
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    /// Membership and role of a user in a tenant.
    memberships (tenant_id, user_id) {
        /// The tenant.
        tenant_id -> Uuid,
        /// The user.
        user_id -> Uuid,
        /// viewer reads, operator also runs and pauses, admin also changes, owner also manages people.
        role -> Text,
        /// Time the user joined, by the database clock.
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// Destinations of a tenant's notifications.
    notification_channels (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Transport of the channel.
        kind -> Text,
        /// URL of a webhook; NULL for other kinds.
        url -> Nullable<Text>,
        /// Name of a secret of the tenant: signing key of a webhook (NULL if unsigned), or the URL of a chat.
        secret -> Nullable<Text>,
        /// E-mail recipients; empty for other kinds.
        addresses -> Array<Text>,
        /// Whether rules use it. Events in an inactive period are not sent later.
        is_active -> Bool,
        /// Increases with every change.
        version -> Int8,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Component or e-mail address that created the row.
        created_src -> Text,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
        /// Component or e-mail address of the last change.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Position of the leader in the event stream; one row. All settled events before it have been matched with the rules.
    notification_cursor (is_only) {
        /// Always true: there is one row.
        is_only -> Bool,
        /// Server that the position belongs to; positions of another server mean nothing.
        server -> Int8,
        /// Transaction in the stream.
        transaction_id -> Int8,
        /// Last processed event of that transaction; 0 before all of them.
        event_id -> Int8,
        /// Last move, by the database clock.
        moved_at -> Timestamptz,
    }
}

diesel::table! {
    /// Messages with their delivery state. Kept as long as finished runs.
    notification_deliveries (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Identifier (UUID version 7), the same for all attempts: receivers detect a repeated message by it.
        id -> Uuid,
        /// Destination. The channel may have been deleted since.
        channel_id -> Uuid,
        /// Name of the channel at that time.
        channel_name -> Text,
        /// Matching rule; NULL for a test. The rule may have been deleted since.
        rule_id -> Nullable<Uuid>,
        /// Name of the rule at that time; NULL for a test.
        rule_name -> Nullable<Text>,
        /// Kind of message.
        kind -> Text,
        /// Transaction of the event in the stream; NULL for a test.
        event_transaction_id -> Nullable<Int8>,
        /// Position of the event in that transaction; NULL for a test.
        event_id -> Nullable<Int8>,
        /// Subject job; NULL for a test.
        job_id -> Nullable<Uuid>,
        /// Subject run; NULL for a test, or without a run.
        subject_dispatch_id -> Nullable<Uuid>,
        /// Message, in the form that a webhook receives.
        body -> Jsonb,
        /// Number of suppressed messages of the same kind and job since the previous message.
        held_back -> Int4,
        /// waiting: no run yet; sending: has a run; sent; failed: given up.
        status -> Text,
        /// Run of sched.notify that sends it; NULL while waiting, and if it was given up while waiting.
        dispatch_id -> Nullable<Uuid>,
        /// Number of ended attempts of that run.
        attempts -> Int4,
        /// Error class of the last attempt; NULL if it did not fail.
        error_class -> Nullable<Text>,
        /// Error message of the last attempt; NULL if it did not fail.
        error_message -> Nullable<Text>,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Last change of the status, by the database clock.
        updated_at -> Timestamptz,
        /// Addresses whose server accepted the e-mail, so that a retry sends only to the remaining ones; empty for other kinds.
        reached -> Array<Text>,
    }
}

diesel::table! {
    /// Last message and suppressed ones, for rules with min_interval_seconds. Only the leader writes here.
    notification_holds (tenant_id, rule_id, job_id, kind) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The rule.
        rule_id -> Uuid,
        /// Subject job.
        job_id -> Uuid,
        /// Kind of message.
        kind -> Text,
        /// Time of the event that was last sent.
        told_at -> Timestamptz,
        /// Number of events suppressed since.
        held_back -> Int4,
    }
}

diesel::table! {
    /// Events to send, and the channel to send them to.
    notification_rules (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Destination channel.
        channel_id -> Uuid,
        /// Kinds of events: failure, dead_letter, missed, recovery.
        kinds -> Array<Text>,
        /// Only jobs that were in this project at the time of the event; NULL for all.
        project_id -> Nullable<Uuid>,
        /// Only this job; NULL for all.
        job_id -> Nullable<Uuid>,
        /// Minimum seconds between two messages of one kind about one job; the next message counts the suppressed events. 0 sends everything.
        min_interval_seconds -> Int4,
        /// Whether the rule sends anything.
        is_active -> Bool,
        /// Creation or last activation. Earlier events are not sent.
        active_since -> Timestamptz,
        /// Increases with every change.
        version -> Int8,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Component or e-mail address that created the row.
        created_src -> Text,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
        /// Component or e-mail address of the last change.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Groups of jobs within a tenant. Deleting a project deletes its jobs; their history stays.
    projects (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Random identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant among projects that are not deleted.
        name -> Text,
        /// Display name.
        display_name -> Text,
        /// Free text.
        description -> Text,
        /// Kill switch: while true, no job of the project is dispatched or claimed.
        is_paused -> Bool,
        /// Reason of the pause, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
        /// Deletion time; NULL while the project exists.
        deleted_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Recent claims of each queue with a limit. A claim locks the row of its queue, so that limits hold under concurrency.
    queue_usage (tenant_id, queue) {
        /// Owning tenant of the queue.
        tenant_id -> Uuid,
        /// The queue.
        queue -> Text,
        /// Claim times within the rate-limit period, oldest first; at most one entry per tenth of the period: the last claim in it.
        claimed_at -> Array<Timestamptz>,
        /// Number of claims per entry, in the same order.
        claimed -> Array<Int4>,
    }
}

diesel::table! {
    /// Named queues of waiting runs. A worker serves queues by name, for all tenants.
    queues (tenant_id, name) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Kill switch: while true, nothing is claimed from this queue.
        is_paused -> Bool,
        /// Reason of the pause, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// Maximum number of concurrent runs of the queue; NULL means no limit.
        max_running -> Nullable<Int4>,
        /// Maximum number of claims in any interval as long as the period; NULL means no limit.
        rate_limit_count -> Nullable<Int4>,
        /// Length of the rate-limit period, in seconds.
        rate_limit_period_seconds -> Nullable<Int4>,
        /// Priority of runs whose job has none: 0 runs first, 100 last.
        default_priority -> Int2,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    /// Ends of attempts: one row for each completion, tenant and project, by month.
    run_end_batches (id, created_at) {
        /// Position within the transaction, and the event id of the first end.
        id -> Int8,
        /// Time of the events, by the database clock.
        created_at -> Timestamptz,
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Project of the jobs; NULL for other scopes.
        project_id -> Nullable<Uuid>,
        /// The job, if all runs are of one job; else NULL.
        job_id -> Nullable<Uuid>,
        /// Number of attempts.
        size -> Int4,
        /// The runs. The other arrays have this order.
        dispatch_ids -> Array<Uuid>,
        /// The attempts.
        execution_ids -> Array<Uuid>,
        /// Job of each run.
        job_ids -> Array<Uuid>,
        /// Name of the job at the claim.
        job_names -> Array<Text>,
        /// Number of the attempt within its run.
        attempts -> Array<Int4>,
        /// Outcome of the attempt; NULL for COMPLETED.
        outcomes -> Array<Text>,
        /// State of the run after the attempt; NULL if it is the outcome.
        dispatch_statuses -> Array<Text>,
        /// Start of the attempt, by the database clock.
        started_at -> Array<Timestamptz>,
        /// Duration in milliseconds, by the worker's monotonic clock.
        durations_ms -> Array<Int8>,
        /// Exit code of a process, or HTTP status.
        exit_codes -> Array<Int4>,
        /// Stable error class, for programs.
        error_classes -> Array<Text>,
        /// First 1,000 characters of the error message, for people.
        errors -> Array<Text>,
    }
}

diesel::table! {
    /// Starts of attempts: one row for each claim, tenant and project, by month.
    run_start_batches (id, created_at) {
        /// Position within the transaction, and the event id of the first start.
        id -> Int8,
        /// Time of the events, by the database clock.
        created_at -> Timestamptz,
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Project of the jobs; NULL for other scopes.
        project_id -> Nullable<Uuid>,
        /// The job, if all runs are of one job; else NULL.
        job_id -> Nullable<Uuid>,
        /// The worker that claimed the runs.
        worker_id -> Uuid,
        /// Number of attempts.
        size -> Int4,
        /// The runs. The other arrays have this order.
        dispatch_ids -> Array<Uuid>,
        /// Job of each run.
        job_ids -> Array<Uuid>,
        /// Name of the job at the claim.
        job_names -> Array<Text>,
        /// Number of the attempt within its run.
        attempts -> Array<Int4>,
        /// Fire time, or trigger time.
        scheduled_for -> Array<Timestamptz>,
    }
}

diesel::table! {
    /// Settings of every job after each change; the previous settings are the previous row. Runs name a row in place of its arguments.
    scheduled_job_versions (tenant_id, job_id, version) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The job.
        job_id -> Uuid,
        /// Version that these settings created.
        version -> Int8,
        /// Kind of change.
        change -> Text,
        /// Settings after the change, in the form the API returns.
        settings -> Jsonb,
        /// Time of the change, by the database clock.
        changed_at -> Timestamptz,
        /// Component or e-mail address that made the change.
        changed_src -> Text,
        /// Reason of the pause, if the change is a pause.
        pause_reason -> Nullable<Text>,
        /// End of that pause; NULL means until a user resumes the job.
        paused_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Jobs: settings and running state in one row.
    scheduled_jobs (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Identifier; time-ordered if the API created it.
        id -> Uuid,
        /// backup_infrastructure and system jobs are singletons per function; project jobs belong to a project.
        scope -> Text,
        /// Project of a project job; NULL for other scopes.
        project_id -> Nullable<Uuid>,
        /// Stable name, unique in the tenant among jobs that are not deleted.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Function to run.
        task_function_id -> Uuid,
        /// Arguments of every run without its own.
        task_args -> Jsonb,
        /// Kind of schedule.
        job_type -> Text,
        /// The schedule, in the form of its kind.
        schedule_config -> Jsonb,
        /// IANA zone of wall-clock schedules.
        timezone -> Text,
        /// Handling of a wall-clock time that does not exist; NULL means the schedule default.
        dst_gap -> Nullable<Text>,
        /// Handling of a wall-clock time that occurs twice; NULL means the schedule default.
        dst_overlap -> Nullable<Text>,
        /// No fire before this time; NULL means no bound.
        start_at -> Nullable<Timestamptz>,
        /// No fire at or after this time; NULL means no bound.
        end_at -> Nullable<Timestamptz>,
        /// Maximum number of fires; NULL means no bound.
        max_runs -> Nullable<Int8>,
        /// Runs become available up to this much after the fire time, stable per job and fire time.
        jitter_seconds -> Int4,
        /// Handling of misfires: skip them, fire the latest once, or fire all up to the cap.
        misfire_policy -> Text,
        /// A fire up to this late, in seconds, is still on time; NULL means the installation default.
        misfire_grace_seconds -> Nullable<Int4>,
        /// Maximum number of fires that fire_all catches up at once.
        misfire_cap -> Int4,
        /// Open runs (waiting or running) before overlap_policy applies to fires; triggers by hand come on top.
        max_instances -> Int4,
        /// Handling of a fire while max_instances runs are open: skip, queue, dispatch after cancelling the oldest, or allow.
        overlap_policy -> Text,
        /// Queue of its runs; NULL means the queue of the function.
        queue -> Nullable<Text>,
        /// Priority of its runs, 0 first to 100 last; NULL means the default of the queue.
        priority -> Nullable<Int2>,
        /// Maximum duration of an attempt, in seconds; NULL means the function default.
        timeout_seconds -> Nullable<Int4>,
        /// Retry policy; NULL means that of the function, else the installation default.
        retry_policy -> Nullable<Jsonb>,
        /// False: the schedule does not fire. Manual triggers still work.
        is_enabled -> Bool,
        /// Reason why the scheduler disabled the job or did not enable a built-in job; NULL if a person disabled it, and while it is enabled.
        disabled_reason -> Nullable<Text>,
        /// True: the schedule does not fire until paused_until.
        is_paused -> Bool,
        /// Reason of the pause, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// End of the pause; NULL means until a user resumes the job.
        paused_until -> Nullable<Timestamptz>,
        /// Deletion time. The history stays, and the job can be restored.
        deleted_at -> Nullable<Timestamptz>,
        /// Next fire time: the cursor of the schedule. It moves on during a pause, so that skips are recorded. NULL if nothing will fire (manual, disabled, deleted, ended).
        next_run_at -> Nullable<Timestamptz>,
        /// Start of the latest finished attempt.
        last_run_at -> Nullable<Timestamptz>,
        /// Final status of the latest finished run.
        last_status -> Nullable<Text>,
        /// Creation time of the latest run.
        last_dispatched_at -> Nullable<Timestamptz>,
        /// The leader does not dispatch the job before this time, though it may be due: the tenant used up its quota, or an operator holds it. NULL means no hold.
        dispatch_lock_until -> Nullable<Timestamptz>,
        /// Number of runs created in all.
        total_run_count -> Int8,
        /// Number of open runs, queued ones included, so that a tick need not count. Transactions that open runs or close waiting ones update it. Ends of attempts, and triggers of jobs with overlap_policy allow, are counted within a second.
        active_dispatches -> Int4,
        /// Version of the time zone database that next_run_at was computed with; NULL if not needed.
        tzdata_version -> Nullable<Text>,
        /// Increases with every change of settings; optimistic concurrency and ETag.
        version -> Int8,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Component or e-mail address that created the row.
        created_src -> Text,
        /// Last change of the settings, by the database clock.
        updated_at -> Timestamptz,
        /// Component or e-mail address of the last change.
        updated_src -> Text,
        /// Names of calendars. A fire time that one of them excludes is rolled or skipped.
        calendars -> Array<Text>,
        /// Handling of an excluded fire: skip it, or move it to the same time of the next or previous day that is not excluded.
        calendar_roll -> Text,
        /// Expected duration of a run, in seconds, for simulations; NULL means unknown.
        expected_duration_seconds -> Nullable<Int4>,
        /// Every fire time up to and including this time has its run or its skip record.
        settled_until -> Timestamptz,
        /// Number of fire times that the schedule dispatched; bounded by max_runs.
        fired_count -> Int8,
        /// Fire time of the latest record of the job (scheduled_for or first_fire_at); NULL before the first.
        last_fire_at -> Nullable<Timestamptz>,
        /// Retention may have deleted records of fire times up to this time; NULL if it deleted nothing.
        ledger_starts_at -> Nullable<Timestamptz>,
        /// Number of open runs that are queued behind other runs of the job.
        queued_dispatches -> Int4,
        /// Random rank among jobs due at the same time, so that no tenant's burst goes before another's.
        burst_order -> Int4,
        /// A run whose first attempt has not started this many seconds after it became available expires; NULL means never.
        start_within_seconds -> Nullable<Int4>,
        /// Jobs it runs after, by name, with the required outcome, as the user wrote them; job_dependencies has them by id.
        after -> Jsonb,
        /// all: every one of them must have ended since the last run this created. any: each end creates a run.
        after_mode -> Text,
        /// Template it was created from: name, version at that time, and parameters; NULL without one. A record of origin, not of content.
        made_from -> Nullable<Jsonb>,
        /// True if scheduled_job_versions has the current version with these task_args. Then runs name the version in place of the arguments. Triggers maintain it.
        is_version_stored -> Bool,
        /// True if a statement wrote the schedule and computed no next_run_at, as plain SQL does. The leader then computes it within a second, or disables the job with the reason. A trigger maintains it; a user may set it.
        is_cursor_stale -> Bool,
    }
}

diesel::table! {
    /// Scheduler processes. At most one is the leader; every other scheduler with a recent heartbeat is a standby.
    scheduler_instances (id) {
        /// Random identity, created at process start; never derived from host or pid.
        id -> Uuid,
        /// Host; a label only.
        hostname -> Text,
        /// Process id on that host; a label only.
        pid -> Int4,
        /// Version of the program.
        version -> Text,
        /// Registration time, by the database clock.
        started_at -> Timestamptz,
        /// Last heartbeat, by the database clock. Not indexed, so that the update stays in its page.
        last_heartbeat -> Timestamptz,
        /// True for the leader.
        is_leader -> Bool,
        /// Start of its term; NULL unless leader.
        leader_since -> Nullable<Timestamptz>,
        /// Its term, which fences every write of the leader; NULL unless leader.
        term -> Nullable<Int8>,
        /// Time of the last request of an operator to step down; NULL if none.
        step_down_requested_at -> Nullable<Timestamptz>,
        /// Term of that request; it has no effect in any other term.
        step_down_term -> Nullable<Int8>,
        /// Database clock minus host clock, as of the heartbeat before the last; NULL before that. Displayed, never used.
        clock_offset_seconds -> Nullable<Float8>,
        /// Tasks of the leader that have failed for half a minute or longer, as of the heartbeat.
        failing_tasks -> Array<Text>,
    }
}

diesel::table! {
    /// Kinds of schedule. An inactive kind accepts no new jobs.
    scheduler_job_types (name) {
        /// Stable name, used by jobs.
        name -> Text,
        /// Display name.
        display_name -> Text,
        /// Meaning of the kind and the configuration it takes.
        description -> Text,
        /// False rejects new jobs of this kind; existing jobs continue.
        is_active -> Bool,
    }
}

diesel::table! {
    /// Encrypted values that functions name: passwords, tokens, keys. Never shown; only running attempts receive them.
    secrets (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Project whose jobs may use it; NULL for all jobs of the tenant. A project secret takes precedence over a tenant secret.
        project_id -> Nullable<Uuid>,
        /// Stable name, unique in the project, or among those of the tenant; functions refer to it.
        name -> Text,
        /// Key of the key file that encrypted it.
        key_id -> Text,
        /// Random for every write; not secret.
        nonce -> Bytea,
        /// The value, encrypted and authenticated (ChaCha20-Poly1305) together with tenant, project, name, key and version.
        ciphertext -> Bytea,
        /// Increases with every new value.
        version -> Int8,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Component or e-mail address that created the row.
        created_src -> Text,
        /// Last change of the value, by the database clock.
        updated_at -> Timestamptz,
        /// Component or e-mail address of the last change.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Browser sessions of users, each in one tenant. A sign-out deletes the row; the audit log keeps it.
    sessions (tenant_id, id) {
        /// The one tenant the session acts in.
        tenant_id -> Uuid,
        /// Random identifier for lookups; not the token of the browser.
        id -> Uuid,
        /// The user. The membership decides the rights.
        user_id -> Uuid,
        /// Keyed 256-bit hash of the token that the browser presents.
        token_hash -> Bytea,
        /// Key of the key ring that computed the hash; NULL if there was no ring.
        hash_key_id -> Nullable<Text>,
        /// Sign-in time, by the database clock.
        created_at -> Timestamptz,
        /// Last use, coarse, so that a request does not cost a write.
        last_seen_at -> Timestamptz,
        /// The session ends at this time unless it is used; use moves it, up to expires_at.
        idle_until -> Timestamptz,
        /// The session ends at this time regardless of use.
        expires_at -> Timestamptz,
        /// Beginning of the User-Agent header, shown to the user; NULL if absent.
        user_agent -> Nullable<Text>,
        /// Client address at sign-in, shown to the user; NULL if unknown.
        address -> Nullable<Text>,
    }
}

diesel::table! {
    /// Failed sign-ins by account and by client address, so that all API processes slow down guessing.
    sign_in_failures (subject) {
        /// SHA-256 of the account name, known or not, or of the client address. Hashed because people type passwords into the wrong field.
        subject -> Bytea,
        /// Whether the subject is a client address, which many people may share.
        is_address -> Bool,
        /// Attempts since the last success or the last day without one, running attempts included.
        failures -> Int4,
        /// Last admitted attempt; for an address up to 15 minutes earlier, from which forgetting counts.
        last_at -> Timestamptz,
        /// Attempts before this time are rejected without a check; NULL after few failures.
        blocked_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Fire times that were not dispatched on purpose, with the reason; one row may cover a range.
    skipped_fires (id) {
        /// Identifier.
        id -> Int8,
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The job.
        job_id -> Uuid,
        /// First fire time of the range.
        first_fire_at -> Timestamptz,
        /// Last fire time of the range, inclusive.
        last_fire_at -> Timestamptz,
        /// Number of fire times in the range, or a lower bound.
        fire_count -> Int8,
        /// False if the range was too long to count.
        is_count_exact -> Bool,
        /// Reason of the skip.
        reason -> Text,
        /// Explanation of the reason, if any.
        detail -> Nullable<Text>,
        /// Term of the leader that recorded it; NULL if the API did.
        term -> Nullable<Int8>,
        /// Time of the record, by the database clock.
        recorded_at -> Timestamptz,
        /// Fire time of the job's previous record (scheduled_for or first_fire_at); NULL for the first.
        follows -> Nullable<Timestamptz>,
        /// NULL for fire times of the schedule; else the skipped trigger, so that it never takes the place of a fire time.
        trigger_id -> Nullable<Uuid>,
    }
}

diesel::table! {
    /// Registry of functions that jobs can run.
    task_functions (tenant_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// Random identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant among functions that are not deleted; jobs refer to it.
        name -> Text,
        /// Display name.
        display_name -> Text,
        /// Free text.
        description -> Text,
        /// Handler that runs the function on a worker.
        handler_type -> Text,
        /// Settings of the handler, e.g. program and arguments of a process.
        handler_config -> Jsonb,
        /// Queue of its runs, unless the job names another.
        queue -> Text,
        /// Maximum duration of an attempt, in seconds, unless the job sets one.
        default_timeout_seconds -> Int4,
        /// Retry policy of jobs without one; NULL means the installation default.
        retry_policy -> Nullable<Jsonb>,
        /// JSON Schema (2020-12) for the arguments of its jobs, checked when a job is saved or triggered by hand; NULL accepts all.
        args_schema -> Nullable<Jsonb>,
        /// False accepts no new job and disables existing ones.
        is_active -> Bool,
        /// Kill switch: while true, no job of the function is dispatched or claimed.
        is_paused -> Bool,
        /// Built in: cannot be deleted.
        is_system -> Bool,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
        /// Reason of the pause, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// Deletion time; NULL while the function exists. Then only deleted jobs refer to it.
        deleted_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Output kept per day, only for tenants with the quota log_bytes.
    tenant_log_usage (tenant_id) {
        /// The tenant.
        tenant_id -> Uuid,
        /// The counted day (UTC), by the database clock; an earlier day counts as 0.
        day -> Date,
        /// Output of attempts kept on that day, in bytes.
        kept_bytes -> Int8,
        /// Output of attempts dropped on that day because the quota was used up, in bytes.
        dropped_bytes -> Int8,
        /// Bytes kept by the latest statement that stored output.
        granted_bytes -> Int8,
    }
}

diesel::table! {
    /// Runs dispatched per minute, only for tenants with the quota dispatches_per_minute.
    tenant_usage (tenant_id) {
        /// The tenant.
        tenant_id -> Uuid,
        /// The counted minute, by the database clock; an earlier minute counts as 0.
        minute -> Timestamptz,
        /// Runs that fires and triggers created in that minute.
        dispatched -> Int8,
    }
}

diesel::table! {
    /// Organisations that share one installation and cannot see each other.
    tenants (id) {
        /// Random identifier.
        id -> Uuid,
        /// Short stable name for commands and URLs.
        slug -> Text,
        /// Display name.
        name -> Text,
        /// Kill switch: while true, no run of the tenant is dispatched or claimed.
        is_paused -> Bool,
        /// Limits by name: jobs, dispatches_per_minute (fires and triggers), running_dispatches, log_bytes (kept per UTC day). A missing name means no limit.
        quotas -> Jsonb,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
        /// Reason of the pause, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
    }
}

diesel::table! {
    /// Batches of ends that active_dispatches, last_run_at and last_status of their jobs do not contain yet.
    uncounted_ends (tenant_id, batch_id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// id of the batch.
        batch_id -> Int8,
        /// created_at of the batch.
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// Runs by triggers that active_dispatches, total_run_count and last_dispatched_at of their jobs do not contain yet.
    uncounted_openings (tenant_id, job_id, id) {
        /// Owning tenant.
        tenant_id -> Uuid,
        /// The job.
        job_id -> Uuid,
        /// Increasing number.
        id -> Int8,
        /// Number of runs of one transaction.
        opened -> Int4,
        /// Creation time of the latest of these runs.
        opened_at -> Timestamptz,
    }
}

diesel::table! {
    /// Queues with waiting runs and without a live worker, as last seen by the leader.
    unserved_queues (queue) {
        /// Name of the queue; workers serve queues by name, for all tenants.
        queue -> Text,
        /// Time the oldest of its runs could have been claimed, at detection.
        since -> Timestamptz,
        /// Detection by the leader, by the database clock.
        noticed_at -> Timestamptz,
    }
}

diesel::table! {
    /// User accounts. A user belongs to tenants through memberships.
    users (id) {
        /// Random identifier.
        id -> Uuid,
        /// Sign-in address, unique without regard to case.
        email -> Text,
        /// Display name.
        display_name -> Text,
        /// Argon2 hash in PHC form; NULL for users with another sign-in method.
        password_hash -> Nullable<Text>,
        /// False rejects every sign-in and every key of this user.
        is_active -> Bool,
        /// May operate the installation: tenants, users, leadership, workers, keys of secrets.
        is_system_operator -> Bool,
        /// Last successful sign-in; NULL before the first.
        last_login_at -> Nullable<Timestamptz>,
        /// Creation time, by the database clock.
        created_at -> Timestamptz,
        /// Last change, by the database clock.
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    /// Runs taken by each claim statement. Every running run is listed; some listed runs have finished. Deleted when all have.
    worker_claims (id) {
        /// Identifier.
        id -> Int8,
        /// The worker. It cannot be unregistered while it has claims.
        worker_id -> Uuid,
        /// Time of the claim, by the database clock.
        claimed_at -> Timestamptz,
        /// Claimed runs.
        dispatch_ids -> Array<Uuid>,
        /// Maximum duration of each run at claim time, including the grace period, in seconds, in the same order. Later changes of job or function do not apply. NULL if a worker of an older release claimed them.
        limit_seconds -> Nullable<Array<Int4>>,
    }
}

diesel::table! {
    /// Worker processes and their leases. The lease is this one row, not one row per run.
    worker_registration (worker_id) {
        /// Random identity, created at process start.
        worker_id -> Uuid,
        /// Host; a label only.
        hostname -> Text,
        /// Operating system and architecture.
        platform -> Text,
        /// Process id on that host; a label only.
        process_id -> Int4,
        /// Version of the program.
        version -> Text,
        /// Queues it serves.
        queues -> Array<Text>,
        /// Maximum number of concurrent attempts.
        concurrency -> Int4,
        /// Time in milliseconds without a renewal before which the leader does not give the worker up, with any settings. Longer while the worker runs nothing; a claim makes it ordinary again.
        lease_ms -> Int4,
        /// IDLE, BUSY, DRAINING (takes no new work) or OFFLINE (lease expired; its work was reassigned).
        status -> Text,
        /// Number of running attempts at the last heartbeat.
        running -> Int4,
        /// Number of finished attempts at the last heartbeat.
        jobs_processed -> Int8,
        /// Registration time, by the database clock.
        started_at -> Timestamptz,
        /// Last heartbeat, by the database clock. Not indexed, so that the update stays in its page.
        last_heartbeat -> Timestamptz,
        /// Time the leader found the lease expired; NULL unless OFFLINE.
        offline_since -> Nullable<Timestamptz>,
        /// Time of an operator's drain request; NULL otherwise.
        drain_requested_at -> Nullable<Timestamptz>,
    }
}

/// History of the jobs that back up and restore the main schema.
pub mod maintenance {
    diesel::table! {
        /// Attempts of backup_infrastructure jobs, like public.job_execution_log.
        maintenance.job_execution_log (tenant_id, id, started_at) {
            /// Time-ordered identifier of the attempt (UUID version 7, from the database clock).
            id -> Uuid,
            /// Owning tenant.
            tenant_id -> Uuid,
            /// Project of the job; NULL for jobs of other scopes.
            project_id -> Nullable<Uuid>,
            /// The job.
            job_id -> Uuid,
            /// The run.
            dispatch_id -> Uuid,
            /// Number of the attempt within its run, from 1 without gaps.
            attempt -> Int4,
            /// Outcome. LOST: the leader gave its worker up. RELEASED: its worker stopped and returned it. EXPIRED: no attempt began in time, so the row is a record of the run, without a worker.
            status -> Text,
            /// Fire time, or trigger time.
            scheduled_for -> Timestamptz,
            /// Start, by the database clock.
            started_at -> Timestamptz,
            /// End, by the database clock.
            completed_at -> Timestamptz,
            /// Duration in milliseconds, by the worker's monotonic clock (by the database clock for LOST).
            duration_ms -> Int8,
            /// Exit code of a process, or HTTP status.
            exit_code -> Nullable<Int4>,
            /// Result of the handler.
            result -> Nullable<Jsonb>,
            /// Stable error class, for programs.
            error_class -> Nullable<Text>,
            /// Error message, for people.
            error_message -> Nullable<Text>,
            /// Location of the error, if the handler reported one.
            traceback -> Nullable<Text>,
            /// Metrics reported by the handler.
            metrics -> Nullable<Jsonb>,
            /// Output written in all, kept or not, in bytes.
            output_bytes -> Int8,
            /// The worker.
            worker_id -> Nullable<Uuid>,
            /// Claim token of the attempt.
            claim_token -> Int8,
            /// Origin of the run.
            triggered_by -> Text,
        }
    }

    diesel::table! {
        /// Output of attempts of backup_infrastructure jobs, like public.job_execution_output.
        maintenance.job_execution_output (tenant_id, execution_id, stream, chunk, started_at) {
            /// Owning tenant.
            tenant_id -> Uuid,
            /// The attempt.
            execution_id -> Uuid,
            /// Start of the attempt; decides the partition.
            started_at -> Timestamptz,
            /// Output stream.
            stream -> Text,
            /// Position in the stream, from 0.
            chunk -> Int4,
            /// Text; NUL and bytes that are not UTF-8 are replaced.
            content -> Text,
            /// Bytes dropped between the previous chunk and this one.
            dropped_bytes -> Int8,
            /// Write time, by the database clock.
            written_at -> Timestamptz,
        }
    }
}

diesel::allow_tables_to_appear_in_same_query!(
    api_keys,
    dead_letters,
    job_dependencies,
    job_dispatch,
    live_progress,
    memberships,
    projects,
    queues,
    scheduled_jobs,
    task_functions,
    tenants,
    users
);
