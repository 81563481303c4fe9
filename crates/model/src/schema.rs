//! The tables, as the migrations make them.
//!
//! Written by `scripts/check-schema --write` from a freshly migrated database and compared with one by a test
//! (`tests/schema.rs`), so that it cannot drift. Arrays never hold NULL by our own CHECKs and statements.

#![expect(
    clippy::doc_markdown,
    reason = "these are the comments of the database, where back-quotes mean nothing"
)]

diesel::table! {
    /// Keys by which programs act in one tenant. The secret itself is never stored.
    api_keys (tenant_id, id) {
        /// The one tenant this key acts in.
        tenant_id -> Uuid,
        /// Random identifier.
        id -> Uuid,
        /// The member who owns the key and bounds its rights; NULL for a key of the tenant itself.
        user_id -> Nullable<Uuid>,
        /// What the key is for, shown to people.
        name -> Text,
        /// Public part of the key, by which it is looked up and recognised in logs.
        key_prefix -> Text,
        /// Keyed 256-bit hash of the whole key.
        key_hash -> Bytea,
        /// What the key may do, of what its owner may; empty means all of that. What a key of the tenant may do is its scopes.
        scopes -> Array<Text>,
        /// After this instant the key is refused; NULL never expires.
        expires_at -> Nullable<Timestamptz>,
        /// When the key was revoked; NULL while it is valid.
        revoked_at -> Nullable<Timestamptz>,
        /// Last use, coarse, so that a call does not cost a write.
        last_used_at -> Nullable<Timestamptz>,
        /// When the key was made, by the database clock.
        created_at -> Timestamptz,
        /// Key of the key ring that the hash was made with; NULL when there was no ring.
        hash_key_id -> Nullable<Text>,
        /// Whose e-mail, which key or which component made it.
        created_src -> Text,
        /// Whose e-mail, which key or which component revoked it; NULL while it is valid.
        revoked_src -> Nullable<Text>,
    }
}

diesel::table! {
    /// Who changed what. Written in the transaction of the change; never updated, and removed by age alone.
    audit_log (id) {
        /// Identifier.
        id -> Int8,
        /// When, by the database clock.
        created_at -> Timestamptz,
        /// Tenant it happened in; NULL for the installation.
        tenant_id -> Nullable<Uuid>,
        /// Who did it: an e-mail, a key prefix, or a component.
        actor -> Text,
        /// What was done.
        action -> Text,
        /// Kind of thing it was done to.
        target_type -> Text,
        /// Which one.
        target_id -> Text,
        /// The thing before, without secrets; NULL if it was created.
        before -> Nullable<Jsonb>,
        /// The thing after, without secrets; NULL if it was removed.
        after -> Nullable<Jsonb>,
        /// Request that caused it, as in the logs.
        request_id -> Nullable<Text>,
        /// Network address of who sent the request, as trusted proxies tell it; NULL for what no request did.
        address -> Nullable<Text>,
    }
}

diesel::table! {
    /// Named sets of local dates and windows on which the jobs that name them do not fire: holidays, freezes.
    calendars (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant; jobs refer to it.
        name -> Text,
        /// Free text.
        description -> Text,
        /// What it excludes: dates, yearly, weekly, windows, rules (RFC 5545), except, and its time zone.
        definition -> Jsonb,
        /// Grows with every change.
        version -> Int8,
        /// When it was created, by the database clock.
        created_at -> Timestamptz,
        /// Which component or whose e-mail wrote the row first.
        created_src -> Text,
        /// When it last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Which component or whose e-mail changed it last.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Dispatches that were given up for good, and what somebody decided about them. A row goes with its dispatch.
    dead_letters (tenant_id, dispatch_id) {
        /// The dispatch, whose state is DEAD_LETTER and stays so.
        dispatch_id -> Uuid,
        /// Owner.
        tenant_id -> Uuid,
        /// Project of its job when it died, if any.
        project_id -> Nullable<Uuid>,
        /// The job.
        job_id -> Uuid,
        /// Queue it waited in.
        queue -> Text,
        /// Class of the error of its last attempt; NULL where that had none, or it died before this table was made.
        error_class -> Nullable<Text>,
        /// When it was given up, by the database clock.
        died_at -> Timestamptz,
        /// What was decided: retried (a dispatch of its own runs it again) or discarded; NULL while it is open.
        settled_as -> Nullable<Text>,
        /// When, by the database clock; NULL while it is open.
        settled_at -> Nullable<Timestamptz>,
        /// By whom; NULL while it is open.
        settled_by -> Nullable<Text>,
        /// Why, for people, if they said.
        settled_reason -> Nullable<Text>,
        /// The dispatch that runs it again; NULL unless it was retried.
        retried_as -> Nullable<Uuid>,
    }
}

diesel::table! {
    /// Durable stream of what happened, by month.
    events (id, created_at) {
        /// Position among the events of one transaction. Ids can commit out of order: see transaction_id.
        id -> Int8,
        /// When, by the database clock.
        created_at -> Timestamptz,
        /// Whose event it is; NULL for events of the installation.
        tenant_id -> Nullable<Uuid>,
        /// Project it concerns, if any.
        project_id -> Nullable<Uuid>,
        /// Job it concerns, if any.
        job_id -> Nullable<Uuid>,
        /// Dispatch it concerns, if any.
        dispatch_id -> Nullable<Uuid>,
        /// What happened.
        event_type -> Text,
        /// Details, by type.
        payload -> Jsonb,
    }
}

diesel::table! {
    /// One row: how long things are kept, as the leader was told by its settings, for the built-in jobs; none until somebody has led.
    housekeeping (is_only) {
        /// True: there is one row.
        is_only -> Bool,
        /// Days for finished dispatches, skips, history and events.
        finished_days -> Int4,
        /// Days for dead letters.
        dead_letter_days -> Int4,
        /// Days for the audit log and the terms of leadership.
        audit_days -> Int4,
        /// How long the keys of triggers are remembered, in seconds.
        idempotency_key_seconds -> Int8,
        /// What becomes of old months of history: dropped, or detached for an archiver.
        history_expiry -> Text,
        /// Silence after which a standby is removed from the list, in seconds.
        stale_scheduler_seconds -> Int8,
        /// How long a worker that was given up stays in the list, in seconds.
        stale_worker_seconds -> Int8,
        /// When a leader last changed this, by the database clock.
        told_at -> Timestamptz,
        /// When a built-in job last removed all that was due, by the database clock; long ago, or NULL, and the leader does it itself.
        retained_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Which job runs after which others have ended, and what has been met of it; without cycles.
    job_dependencies (tenant_id, job_id, after_job_id) {
        /// Owner of both jobs.
        tenant_id -> Uuid,
        /// The job that runs after the other.
        job_id -> Uuid,
        /// The other job.
        after_job_id -> Uuid,
        /// How a dispatch of the other job must end.
        condition -> Text,
        /// When this was written, by the database clock; what ended before counts nothing.
        since -> Timestamptz,
        /// The dispatch that met the condition since the last run; NULL while none has, and where each end is a run of its own.
        met_by -> Nullable<Uuid>,
        /// When the latest dispatch that met the condition ended; kept when a run uses it up, so that no end counts twice.
        met_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// One fire time, or one trigger, to be executed.
    job_dispatch (id) {
        /// Time-ordered identifier (UUID version 7, from the database clock).
        id -> Uuid,
        /// Owner.
        tenant_id -> Uuid,
        /// The job.
        job_id -> Uuid,
        /// The fire time; for a trigger, when it was made; for a dependency, when the other job ended; for a retry, as of the dispatch that it runs again.
        scheduled_for -> Timestamptz,
        /// When the row was written; minus scheduled_for it is the lateness.
        created_at -> Timestamptz,
        /// When it could first be claimed, or claimed again after the latest failed attempt.
        available_at -> Timestamptz,
        /// From when on it may be claimed; infinity while it waits in line behind others of its job; NULL unless it is PENDING.
        claimable_at -> Nullable<Timestamptz>,
        /// When the latest claim was made; minus available_at it is the wait.
        claimed_at -> Nullable<Timestamptz>,
        /// When it reached a final state; NULL before.
        completed_at -> Nullable<Timestamptz>,
        /// State; the transitions are those of model::domain::dispatch.
        status -> Text,
        /// Queue it waits in.
        queue -> Text,
        /// 0 is claimed first, 100 last.
        priority -> Int2,
        /// Worker of the latest claim.
        worker_id -> Nullable<Uuid>,
        /// Token of the latest claim; every write of that claim carries it.
        claim_token -> Nullable<Int8>,
        /// How many attempts have been claimed, lost and released ones included.
        attempt -> Int4,
        /// How many attempts failed and were followed by a retry.
        retry_count -> Int4,
        /// How many attempts were lost with their worker; a dispatch that loses too many is poison.
        lost_count -> Int4,
        /// What the latest unsuccessful attempt said.
        error_message -> Nullable<Text>,
        /// What created it.
        triggered_by -> Text,
        /// Who asked for it; NULL for the scheduler.
        triggered_by_user -> Nullable<Text>,
        /// NULL for a fire time of the schedule; for a dependency, the dispatch whose end made this one; for a retry, computed from retry_of; otherwise the id of this trigger, so that it never takes the place of a fire time.
        trigger_id -> Nullable<Uuid>,
        /// The leader that created it; NULL for triggers by hand.
        scheduler_instance_id -> Nullable<Uuid>,
        /// The term of that leader; NULL for triggers by hand.
        term -> Nullable<Int8>,
        /// Arguments, copied from the job when the row was written.
        args -> Jsonb,
        /// Key the client gave with the trigger; NULL without.
        idempotency_key -> Nullable<Text>,
        /// True when the fire time had been missed and was caught up.
        is_catch_up -> Bool,
        /// When somebody asked to cancel it; its worker stops the work, and it does not wait again.
        cancel_requested_at -> Nullable<Timestamptz>,
        /// If its first attempt has not begun by this instant, it is given up as FAILED; NULL means it waits for ever. Retries do not expire.
        expires_at -> Nullable<Timestamptz>,
        /// W3C trace context of what created it.
        traceparent -> Nullable<Text>,
        /// Fire time of the record that was made before this one for the job (scheduled_for or first_fire_at); NULL for its first, and for triggers.
        follows -> Nullable<Timestamptz>,
        /// The finished dispatch that this one runs again by command; NULL for all others.
        retry_of -> Nullable<Uuid>,
        /// How many attempts were handed back before anything of them ran; while that is all of them, the dispatch can still expire.
        unstarted_count -> Int4,
    }
}

diesel::table! {
    /// Ends of dispatches after which other jobs may run, until the leader has seen to that. No foreign keys: a row is gone within moments.
    job_ends (id) {
        /// Identifier; the order in which they are taken.
        id -> Int8,
        /// Owner.
        tenant_id -> Uuid,
        /// The job that ended.
        job_id -> Uuid,
        /// Its dispatch.
        dispatch_id -> Uuid,
        /// How the dispatch ended. CANCELLED is not told: nothing runs after that.
        status -> Text,
        /// When, by the database clock: its completed_at.
        ended_at -> Timestamptz,
    }
}

diesel::table! {
    /// History: one row per finished attempt of system and project jobs, by month of its start. It outlives the dispatch and the job, so it refers to them by value.
    job_execution_log (tenant_id, id, started_at) {
        /// Time-ordered identifier of the attempt (UUID version 7, from the database clock).
        id -> Uuid,
        /// Owner.
        tenant_id -> Uuid,
        /// Project of the job; NULL for jobs of other scopes.
        project_id -> Nullable<Uuid>,
        /// The job.
        job_id -> Uuid,
        /// The dispatch.
        dispatch_id -> Uuid,
        /// Attempts of a dispatch are numbered 1 to n without gaps.
        attempt -> Int4,
        /// How it ended. LOST: its worker was given up. RELEASED: its worker stopped and gave it back.
        status -> Text,
        /// The fire time, or when the trigger was made.
        scheduled_for -> Timestamptz,
        /// When it started, by the database clock.
        started_at -> Timestamptz,
        /// When it ended, by the database clock.
        completed_at -> Timestamptz,
        /// How long it ran in milliseconds, by the monotonic clock of the worker (of the database for LOST).
        duration_ms -> Int8,
        /// Exit code of a process, or HTTP status.
        exit_code -> Nullable<Int4>,
        /// What the handler returned.
        result -> Nullable<Jsonb>,
        /// Kind of error, stable for programs.
        error_class -> Nullable<Text>,
        /// What went wrong, for people.
        error_message -> Nullable<Text>,
        /// Where it went wrong, if the handler could tell.
        traceback -> Nullable<Text>,
        /// Figures the handler reported.
        metrics -> Nullable<Jsonb>,
        /// How much output it wrote in all, kept or not.
        output_bytes -> Int8,
        /// The worker.
        worker_id -> Nullable<Uuid>,
        /// Token of the claim it ran under.
        claim_token -> Int8,
        /// What created the dispatch.
        triggered_by -> Text,
    }
}

diesel::table! {
    /// What attempts of system and project jobs wrote, in chunks, by month of their start.
    job_execution_output (tenant_id, execution_id, stream, chunk, started_at) {
        /// Owner.
        tenant_id -> Uuid,
        /// The attempt.
        execution_id -> Uuid,
        /// When the attempt started; decides the partition.
        started_at -> Timestamptz,
        /// Where it was written.
        stream -> Text,
        /// Position in the stream, from 0.
        chunk -> Int4,
        /// The text; bytes that are not UTF-8, and NUL, are replaced.
        content -> Text,
        /// How many bytes between this chunk and the one before were not kept.
        dropped_bytes -> Int8,
        /// When the row was written, by the database clock.
        written_at -> Timestamptz,
    }
}

diesel::table! {
    /// Skeletons of jobs with places for parameters, from which jobs are made. A job names the one it was made from and does not depend on it.
    job_templates (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// What may be said of a job that is made from it: for each name its type, default, choices, and whether it must be said.
        parameters -> Jsonb,
        /// The fields of a job, in which {{name}} stands for the value of a parameter.
        job -> Jsonb,
        /// Grows with every change.
        version -> Int8,
        /// When it was created, by the database clock.
        created_at -> Timestamptz,
        /// Which component or whose e-mail wrote the row first.
        created_src -> Text,
        /// When it last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Which component or whose e-mail changed it last.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Answers to requests with an Idempotency-Key, given again when the request is sent again. Holds no secrets: requests about those take no key.
    kept_answers (tenant_id, caller, key) {
        /// Tenant in which the request acted.
        tenant_id -> Uuid,
        /// Who sent it: the prefix of the API key, or the e-mail behind a token. Keys of others are others.
        caller -> Text,
        /// What the client named the request.
        key -> Text,
        /// SHA-256 of method, path, parameters and body, by which the same request is told from another under the same key.
        fingerprint -> Bytea,
        /// Status of the answer.
        status -> Int2,
        /// Its Location; NULL without one.
        location -> Nullable<Text>,
        /// Its ETag, with quotes; NULL without one.
        etag -> Nullable<Text>,
        /// Its body, JSON as it was sent; NULL without one.
        body -> Nullable<Text>,
        /// When it was given first, by the database clock; decides when it goes.
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// Workers that are registered, or were for as long as history is kept: what their attempts are told to have run on.
    known_workers (worker_id) {
        /// Identity of the process, as in worker_registration.
        worker_id -> Uuid,
        /// Host, a label only.
        hostname -> Text,
        /// When it registered, by the database clock.
        registered_at -> Timestamptz,
        /// When its registration ended; NULL while it is registered.
        gone_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Every term of leadership there has been.
    leader_terms (term) {
        /// Grows with every change of leader.
        term -> Int8,
        /// The scheduler that led.
        instance_id -> Uuid,
        /// Its host.
        hostname -> Text,
        /// Its process id.
        pid -> Int4,
        /// When it took over, by the database clock.
        started_at -> Timestamptz,
        /// When it resigned or was replaced; NULL for the present leader.
        ended_at -> Nullable<Timestamptz>,
        /// How the term ended: it resigned, its lease expired, or an operator asked it to step down.
        end_reason -> Nullable<Text>,
    }
}

diesel::table! {
    /// What running attempts have written lately. It goes when the attempt is over; the record of it is job_execution_output.
    live_output (tenant_id, dispatch_id, claim_token, seq) {
        /// Owner.
        tenant_id -> Uuid,
        /// The dispatch.
        dispatch_id -> Uuid,
        /// Token of the claim under which the attempt runs.
        claim_token -> Int8,
        /// Order of the pieces of an attempt over all its streams, from 1; numbers may be missing at the beginning, as the oldest pieces go.
        seq -> Int8,
        /// Where it was written.
        stream -> Text,
        /// Bytes of the stream before this piece, counted as stored text; a gap to the piece before was not kept.
        starts_at -> Int8,
        /// The text; bytes that are not UTF-8, and NUL, are replaced.
        content -> Text,
        /// When the row was written, by the database clock.
        written_at -> Timestamptz,
    }
}

diesel::table! {
    /// How far running attempts have come, as they last told it. It goes when the attempt is over.
    live_progress (tenant_id, dispatch_id) {
        /// Owner.
        tenant_id -> Uuid,
        /// The dispatch.
        dispatch_id -> Uuid,
        /// Token of the claim under which the attempt runs; one of an earlier claim says nothing about the present one.
        claim_token -> Int8,
        /// From 0 to 100; NULL where that is not known.
        percent -> Nullable<Float4>,
        /// What it does, for people.
        message -> Text,
        /// When it was told, by the database clock.
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    /// Which user acts in which tenant, and with what role.
    memberships (tenant_id, user_id) {
        /// The tenant.
        tenant_id -> Uuid,
        /// The user.
        user_id -> Uuid,
        /// viewer reads, operator also runs and pauses, admin also changes, owner also manages people.
        role -> Text,
        /// When the user joined, by the database clock.
        created_at -> Timestamptz,
    }
}

diesel::table! {
    /// Where notifications of a tenant go.
    notification_channels (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// How it is reached.
        kind -> Text,
        /// Where a webhook is sent; NULL for others.
        url -> Nullable<Text>,
        /// Name of a secret of the tenant: with which webhooks are signed, NULL for unsigned ones; or which is the URL of a chat.
        secret -> Nullable<Text>,
        /// To whom e-mail goes; empty for others.
        addresses -> Array<Text>,
        /// Whether rules use it; what happens meanwhile is not told later.
        is_active -> Bool,
        /// Grows with every change.
        version -> Int8,
        /// When it was created, by the database clock.
        created_at -> Timestamptz,
        /// Which component or whose e-mail wrote the row first.
        created_src -> Text,
        /// When it last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Which component or whose e-mail changed it last.
        updated_src -> Text,
    }
}

diesel::table! {
    /// How far the leader has read the stream of events for notifications; one row. All that settled before it has been matched with the rules there were.
    notification_cursor (is_only) {
        /// Always true: there is one row.
        is_only -> Bool,
        /// Which server it is a position of; positions of another mean nothing here.
        server -> Int8,
        /// Number of a transaction in the stream.
        transaction_id -> Int8,
        /// The last event of it that was read; 0 before all of them.
        event_id -> Int8,
        /// When it last moved, by the database clock.
        moved_at -> Timestamptz,
    }
}

diesel::table! {
    /// Messages: what was told, or is being told, and what became of it. Kept as long as finished dispatches.
    notification_deliveries (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Identifier (UUID version 7), the same over all attempts: receivers know a repeated message by it.
        id -> Uuid,
        /// Where it goes. The channel may have been deleted since.
        channel_id -> Uuid,
        /// Name of the channel then.
        channel_name -> Text,
        /// Which rule wanted it; NULL for a test. The rule may have been deleted since.
        rule_id -> Nullable<Uuid>,
        /// Name of the rule then; NULL for a test.
        rule_name -> Nullable<Text>,
        /// What it tells.
        kind -> Text,
        /// Position of the event that it tells; NULL for a test.
        event_transaction_id -> Nullable<Int8>,
        /// Position of the event within the transaction; NULL for a test.
        event_id -> Nullable<Int8>,
        /// The job that it is about; NULL for a test.
        job_id -> Nullable<Uuid>,
        /// The run that it is about; NULL for a test and where there was none.
        subject_dispatch_id -> Nullable<Uuid>,
        /// The message, as a webhook gets it.
        body -> Jsonb,
        /// How many of the same kind about the same job were not told since the message before.
        held_back -> Int4,
        /// waiting: has no dispatch yet; sending: has one; sent; failed: given up.
        status -> Text,
        /// The dispatch of sched.notify that sends it; NULL while it waits for one, and when it was given up waiting.
        dispatch_id -> Nullable<Uuid>,
        /// Attempts of that dispatch that have ended.
        attempts -> Int4,
        /// Kind of error of the last attempt; NULL when none failed, or the last did not.
        error_class -> Nullable<Text>,
        /// What went wrong in the last attempt; NULL when none failed, or the last did not.
        error_message -> Nullable<Text>,
        /// When it was decided upon, by the database clock.
        created_at -> Timestamptz,
        /// When its status last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Addresses whose server has taken the e-mail; empty for other channels.
        reached -> Array<Text>,
    }
}

diesel::table! {
    /// For rules with a min_interval_seconds: when something was last told, and what was not since. Written by the leader alone.
    notification_holds (tenant_id, rule_id, job_id, kind) {
        /// Owner.
        tenant_id -> Uuid,
        /// The rule.
        rule_id -> Uuid,
        /// The job that it is about.
        job_id -> Uuid,
        /// What is told.
        kind -> Text,
        /// When the event happened that was told last.
        told_at -> Timestamptz,
        /// How many were not told since.
        held_back -> Int4,
    }
}

diesel::table! {
    /// What is told to whom.
    notification_rules (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Where it is told.
        channel_id -> Uuid,
        /// What is told: failure, dead_letter, missed, recovery.
        kinds -> Array<Text>,
        /// Only of jobs that were in this project when it happened; NULL for all.
        project_id -> Nullable<Uuid>,
        /// Only of this job; NULL for all.
        job_id -> Nullable<Uuid>,
        /// Shortest time between two messages of one kind about one job; what happens meanwhile is counted in the next one. 0 tells everything.
        min_interval_seconds -> Int4,
        /// Whether it tells anything.
        is_active -> Bool,
        /// Nothing that happened before this is told: when it was created or last switched on.
        active_since -> Timestamptz,
        /// Grows with every change.
        version -> Int8,
        /// When it was created, by the database clock.
        created_at -> Timestamptz,
        /// Which component or whose e-mail wrote the row first.
        created_src -> Text,
        /// When it last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Which component or whose e-mail changed it last.
        updated_src -> Text,
    }
}

diesel::table! {
    /// Groups of jobs within a tenant. Deleting a project deletes its jobs; their history stays.
    projects (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Random identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant among projects that are not deleted.
        name -> Text,
        /// Name shown to people.
        display_name -> Text,
        /// Free text.
        description -> Text,
        /// Kill switch: while true no job of the project is dispatched or claimed.
        is_paused -> Bool,
        /// Why it is paused, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// When the row was written, by the database clock.
        created_at -> Timestamptz,
        /// When the row was last changed, by the database clock.
        updated_at -> Timestamptz,
        /// When it was deleted; NULL while it is there.
        deleted_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// What has been claimed of each queue with a limit. Its row is locked by whoever claims from the queue, so that limits hold whatever happens at once.
    queue_usage (tenant_id, queue) {
        /// Owner of the queue.
        tenant_id -> Uuid,
        /// The queue.
        queue -> Text,
        /// When dispatches were claimed within the rate-limit period, oldest first. One entry for each tenth of the period at most: the time of the last claim in it.
        claimed_at -> Array<Timestamptz>,
        /// How many were claimed then, in the same order.
        claimed -> Array<Int4>,
    }
}

diesel::table! {
    /// Named lines in which dispatches wait. A worker serves queues by name, for all tenants.
    queues (tenant_id, name) {
        /// Owner.
        tenant_id -> Uuid,
        /// Stable name, unique in the tenant.
        name -> Text,
        /// Free text.
        description -> Text,
        /// Kill switch: while true nothing is claimed from this queue.
        is_paused -> Bool,
        /// Why it is paused, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// How many dispatches of the queue may run at once; NULL means no limit.
        max_running -> Nullable<Int4>,
        /// How many dispatches may be claimed in any stretch of time as long as the period; NULL means no limit.
        rate_limit_count -> Nullable<Int4>,
        /// Length of the rate-limit period, in seconds.
        rate_limit_period_seconds -> Nullable<Int4>,
        /// Priority of dispatches whose job names none; 0 runs first, 100 last.
        default_priority -> Int2,
        /// When the row was written, by the database clock.
        created_at -> Timestamptz,
        /// When the row was last changed, by the database clock.
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    /// The settings of every job as they were after each change; the one before is the row before.
    scheduled_job_versions (tenant_id, job_id, version) {
        /// Owner.
        tenant_id -> Uuid,
        /// The job.
        job_id -> Uuid,
        /// The version these settings made.
        version -> Int8,
        /// What kind of change made it.
        change -> Text,
        /// The settings after the change, in the form the API shows.
        settings -> Jsonb,
        /// When, by the database clock.
        changed_at -> Timestamptz,
        /// Which component or whose e-mail made the change.
        changed_src -> Text,
        /// Why the job was paused, where the change is a pause.
        pause_reason -> Nullable<Text>,
        /// When that pause is to end by itself; NULL means when somebody resumes the job.
        paused_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// What to run and when; one row holds the settings and the running state of a job.
    scheduled_jobs (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Identifier; time-ordered when made by the API.
        id -> Uuid,
        /// backup_infrastructure and system jobs are singletons per task function; project jobs belong to a project.
        scope -> Text,
        /// Project of a project-scoped job; NULL for the other scopes.
        project_id -> Nullable<Uuid>,
        /// Stable name, unique in the tenant among jobs that are not deleted.
        name -> Text,
        /// Free text.
        description -> Text,
        /// What is run.
        task_function_id -> Uuid,
        /// Arguments handed to every run; copied into each dispatch.
        task_args -> Jsonb,
        /// Kind of schedule.
        job_type -> Text,
        /// The schedule itself, in the form its kind defines.
        schedule_config -> Jsonb,
        /// IANA zone in which wall-clock schedules are read.
        timezone -> Text,
        /// What becomes of a wall-clock time that does not exist; NULL means the default of the schedule.
        dst_gap -> Nullable<Text>,
        /// What becomes of a wall-clock time that occurs twice; NULL means the default of the schedule.
        dst_overlap -> Nullable<Text>,
        /// No fire before this instant; NULL means no bound.
        start_at -> Nullable<Timestamptz>,
        /// No fire at or after this instant; NULL means no bound.
        end_at -> Nullable<Timestamptz>,
        /// No fire after this many; NULL means no bound.
        max_runs -> Nullable<Int8>,
        /// Dispatches become available up to this much after the fire time, stable per job and fire time.
        jitter_seconds -> Int4,
        /// What becomes of fire times that passed without dispatch: skip them, fire the latest once, or fire all up to the cap.
        misfire_policy -> Text,
        /// A fire this late is still on time, in seconds; NULL means the installation default.
        misfire_grace_seconds -> Nullable<Int4>,
        /// Most fires that fire_all catches up at once.
        misfire_cap -> Int4,
        /// How many dispatches of the job may be open (waiting or running) at once before overlap_policy applies to its fires; triggers by hand come on top.
        max_instances -> Int4,
        /// What becomes of a fire while max_instances are open: skipped, queued in line, dispatched after the oldest is cancelled, or allowed.
        overlap_policy -> Text,
        /// Queue of its dispatches; NULL means the queue of the function.
        queue -> Nullable<Text>,
        /// Priority of its dispatches, 0 first to 100 last; NULL means the default of the queue.
        priority -> Nullable<Int2>,
        /// Longest run of one attempt, in seconds; NULL means the default of the function.
        timeout_seconds -> Nullable<Int4>,
        /// Retry policy; NULL means that of the function, else the installation default.
        retry_policy -> Nullable<Jsonb>,
        /// False: the schedule does not fire. Manual triggers still work.
        is_enabled -> Bool,
        /// Why the scheduler disabled the job, or why a built-in job was not enabled from the start; NULL when a person disabled it, and while enabled.
        disabled_reason -> Nullable<Text>,
        /// True: the schedule does not fire for a while; not any more once paused_until has passed.
        is_paused -> Bool,
        /// Why it is paused, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// When the pause ends by itself; NULL means when somebody resumes it.
        paused_until -> Nullable<Timestamptz>,
        /// When the job was deleted; its history stays and it can be restored.
        deleted_at -> Nullable<Timestamptz>,
        /// The next fire time: the cursor of the schedule. It moves on while the job is paused, so that what is skipped is recorded. NULL when nothing will fire (manual, disabled, deleted, over).
        next_run_at -> Nullable<Timestamptz>,
        /// When the latest finished attempt started.
        last_run_at -> Nullable<Timestamptz>,
        /// How the latest finished dispatch ended.
        last_status -> Nullable<Text>,
        /// When the latest dispatch was created.
        last_dispatched_at -> Nullable<Timestamptz>,
        /// The scheduler leaves the job alone until this instant, though it may be due: its tenant has used up its quota, or an operator holds it; NULL means not.
        dispatch_lock_until -> Nullable<Timestamptz>,
        /// How many dispatches have been created in all.
        total_run_count -> Int8,
        /// How many of its dispatches wait or run, in line or not.
        active_dispatches -> Int4,
        /// Version of the time zone database next_run_at was computed from; NULL for schedules that need none.
        tzdata_version -> Nullable<Text>,
        /// Grows with every change of settings; optimistic concurrency and ETag.
        version -> Int8,
        /// When the job was created, by the database clock.
        created_at -> Timestamptz,
        /// Which component or whose e-mail wrote the row first.
        created_src -> Text,
        /// When the settings last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Which component or whose e-mail changed the settings last.
        updated_src -> Text,
        /// Names of calendars; a fire time that one of them excludes is rolled or skipped.
        calendars -> Array<Text>,
        /// What becomes of an excluded fire: skipped, or moved to the same time of the next or previous day that is not excluded.
        calendar_roll -> Text,
        /// How long a run is expected to take, for simulations; NULL means unknown.
        expected_duration_seconds -> Nullable<Int4>,
        /// Every fire time up to and including this instant has its dispatch or its skip record.
        settled_until -> Timestamptz,
        /// How many fire times the schedule has dispatched; max_runs bounds it.
        fired_count -> Int8,
        /// Fire time of the record that was made last for the job (scheduled_for or first_fire_at); NULL before the first.
        last_fire_at -> Nullable<Timestamptz>,
        /// Records of fire times up to this instant may have been removed by retention; NULL means none were.
        ledger_starts_at -> Nullable<Timestamptz>,
        /// How many of the open dispatches wait in line for others of the job to end.
        queued_dispatches -> Int4,
        /// Random place among jobs that are due at the same instant, so that no tenant's burst goes before another's.
        burst_order -> Int4,
        /// A dispatch whose first attempt has not begun this many seconds after it became available is given up; NULL means it waits for ever.
        start_within_seconds -> Nullable<Int4>,
        /// Jobs it runs after, each with its name and how it must end, as the user wrote them; job_dependencies has them by id.
        after -> Jsonb,
        /// Whether all of them must have ended since the last run this made, or any one, every time.
        after_mode -> Text,
        /// Whether jobs run after this one, so that its ends are to be told in job_ends.
        has_dependents -> Bool,
        /// The template it was made from: its name and version then, and the parameters that were given; NULL when none. Says whence it came, not what it is.
        made_from -> Nullable<Jsonb>,
    }
}

diesel::table! {
    /// Scheduler processes. At most one leads; the others stand by.
    scheduler_instances (id) {
        /// Random identity made when the process started; never derived from host or pid.
        id -> Uuid,
        /// Host, a label only.
        hostname -> Text,
        /// Process id on that host, a label only.
        pid -> Int4,
        /// Version of the program.
        version -> Text,
        /// When the process registered, by the database clock.
        started_at -> Timestamptz,
        /// When it last said it lives, by the database clock. Not indexed, so that a heartbeat stays in its page.
        last_heartbeat -> Timestamptz,
        /// True for the one that dispatches.
        is_leader -> Bool,
        /// When its term began; NULL unless leader.
        leader_since -> Nullable<Timestamptz>,
        /// Its term; fences every write it makes as leader. NULL unless leader.
        term -> Nullable<Int8>,
        /// When an operator last asked it to step down; NULL if nobody has.
        step_down_requested_at -> Nullable<Timestamptz>,
        /// The term for which that was asked; in every other term the request counts for nothing.
        step_down_term -> Nullable<Int8>,
        /// How far the database clock was ahead of the clock of its host, as of the heartbeat before the last; NULL before that. Shown, never used.
        clock_offset_seconds -> Nullable<Float8>,
    }
}

diesel::table! {
    /// Kinds of schedule. An inactive kind accepts no new jobs.
    scheduler_job_types (name) {
        /// The kind, as jobs name it.
        name -> Text,
        /// Name shown to people.
        display_name -> Text,
        /// What the kind means and which configuration it takes.
        description -> Text,
        /// False accepts no new job of this kind; existing ones go on.
        is_active -> Bool,
    }
}

diesel::table! {
    /// Encrypted values that functions name: passwords, tokens, keys. Never shown to anybody; known to running attempts only.
    secrets (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Identifier.
        id -> Uuid,
        /// The project whose jobs may have it; NULL for all jobs of the tenant. That of the project goes before that of the tenant.
        project_id -> Nullable<Uuid>,
        /// Stable name, unique in the project, or among those of the whole tenant; functions refer to it.
        name -> Text,
        /// Which key of the key file it is encrypted with.
        key_id -> Text,
        /// Made at random for every write; not secret.
        nonce -> Bytea,
        /// The value, encrypted and authenticated (ChaCha20-Poly1305) together with tenant, project, name, key and version.
        ciphertext -> Bytea,
        /// Grows with every new value.
        version -> Int8,
        /// When it was created, by the database clock.
        created_at -> Timestamptz,
        /// Which component or whose e-mail wrote the row first.
        created_src -> Text,
        /// When its value last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Which component or whose e-mail changed it last.
        updated_src -> Text,
    }
}

diesel::table! {
    /// People who are signed in, each in one tenant. Rows of those who signed out are gone; the audit log remembers.
    sessions (tenant_id, id) {
        /// The one tenant this session acts in.
        tenant_id -> Uuid,
        /// Random identifier, by which it is found. Not what a browser has to show.
        id -> Uuid,
        /// Who signed in. What they may do is their membership.
        user_id -> Uuid,
        /// Keyed 256-bit hash of what the browser has to show.
        token_hash -> Bytea,
        /// Key of the key ring that the hash was made with; NULL when there was no ring.
        hash_key_id -> Nullable<Text>,
        /// When they signed in, by the database clock.
        created_at -> Timestamptz,
        /// When they were last here, coarse, so that a request does not cost a write.
        last_seen_at -> Timestamptz,
        /// After this instant it is over; put off while it is used, as far as expires_at.
        idle_until -> Timestamptz,
        /// After this instant it is over however much it is used.
        expires_at -> Timestamptz,
        /// The beginning of what the browser says that it is, shown to its user; NULL when it says nothing.
        user_agent -> Nullable<Text>,
        /// Where they signed in from, shown to its user; NULL when that is not known.
        address -> Nullable<Text>,
    }
}

diesel::table! {
    /// Attempts to sign in that did not succeed, by account and by address, so that all processes of the API hold back who guesses.
    sign_in_failures (subject) {
        /// SHA-256 of the account, whether there is one or not, or of the network address. People type passwords where addresses belong.
        subject -> Bytea,
        /// Whether it is a network address, from which many people may come.
        is_address -> Bool,
        /// Attempts since the last success or the last day without any; those under way count.
        failures -> Int4,
        /// Last attempt that was let through; of an address up to a quarter of an hour before, from which what is forgotten next is counted.
        last_at -> Timestamptz,
        /// Attempts before this instant are refused unseen; NULL while there were few.
        blocked_until -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// Fire times deliberately not dispatched, each with its reason; a range of them is one row with a count.
    skipped_fires (id) {
        /// Identifier.
        id -> Int8,
        /// Owner.
        tenant_id -> Uuid,
        /// The job.
        job_id -> Uuid,
        /// First fire time of the range.
        first_fire_at -> Timestamptz,
        /// Last fire time of the range, included.
        last_fire_at -> Timestamptz,
        /// How many fire times the range holds, or at least holds.
        fire_count -> Int8,
        /// False when the range was too long to count.
        is_count_exact -> Bool,
        /// Why they were skipped.
        reason -> Text,
        /// The reason in words, where there is more to say.
        detail -> Nullable<Text>,
        /// Term of the leader that recorded it; NULL when the API did.
        term -> Nullable<Int8>,
        /// When, by the database clock.
        recorded_at -> Timestamptz,
        /// Fire time of the record that was made before this one for the job (scheduled_for or first_fire_at); NULL for its first.
        follows -> Nullable<Timestamptz>,
        /// NULL for fire times of the schedule; otherwise what would have triggered the job, so that it never takes the place of a fire time.
        trigger_id -> Nullable<Uuid>,
    }
}

diesel::table! {
    /// Registry of what jobs can run.
    task_functions (tenant_id, id) {
        /// Owner.
        tenant_id -> Uuid,
        /// Random identifier.
        id -> Uuid,
        /// Stable name, unique in the tenant among functions that are not deleted; jobs refer to it.
        name -> Text,
        /// Name shown to people.
        display_name -> Text,
        /// Free text.
        description -> Text,
        /// How a worker runs it.
        handler_type -> Text,
        /// Settings of the handler, e.g. program and arguments of a process.
        handler_config -> Jsonb,
        /// Queue of its dispatches unless the job names another.
        queue -> Text,
        /// Longest run of one attempt, in seconds, unless the job says otherwise.
        default_timeout_seconds -> Int4,
        /// Retry policy of jobs that have none of their own; NULL means the installation default.
        retry_policy -> Nullable<Jsonb>,
        /// JSON Schema (2020-12) that the arguments of its jobs must satisfy when a job is saved or triggered by hand; NULL accepts all.
        args_schema -> Nullable<Jsonb>,
        /// False accepts no new job and disables those it has.
        is_active -> Bool,
        /// Kill switch: while true no job of this function is dispatched or claimed.
        is_paused -> Bool,
        /// Built in: cannot be deleted.
        is_system -> Bool,
        /// When the row was written, by the database clock.
        created_at -> Timestamptz,
        /// When the row was last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Why it is paused, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
        /// When it was deleted; NULL while it is there. Only deleted jobs run it then.
        deleted_at -> Nullable<Timestamptz>,
    }
}

diesel::table! {
    /// How much of its quota of output a tenant has used in one day; only of tenants that have such a quota.
    tenant_log_usage (tenant_id) {
        /// The tenant.
        tenant_id -> Uuid,
        /// The day (UTC) this counts, by the database clock; an earlier day than today counts nothing.
        day -> Date,
        /// Output of attempts that was kept on that day.
        kept_bytes -> Int8,
        /// Output of attempts that was not kept on that day, because the quota was used up.
        dropped_bytes -> Int8,
        /// How much was kept by the latest statement that stored output.
        granted_bytes -> Int8,
    }
}

diesel::table! {
    /// How much of its quota of dispatches a tenant has used in one minute; only of tenants that have such a quota.
    tenant_usage (tenant_id) {
        /// The tenant.
        tenant_id -> Uuid,
        /// The minute this counts, by the database clock; an earlier minute than the present counts nothing.
        minute -> Timestamptz,
        /// Dispatches that fire times and triggers made for it in that minute.
        dispatched -> Int8,
    }
}

diesel::table! {
    /// Organisations that share one installation and see nothing of each other.
    tenants (id) {
        /// Random identifier.
        id -> Uuid,
        /// Short stable name for commands and URLs.
        slug -> Text,
        /// Name shown to people.
        name -> Text,
        /// Kill switch: while true nothing of this tenant is dispatched or claimed.
        is_paused -> Bool,
        /// Limits by name; a missing name means unlimited. jobs, dispatches_per_minute (fire times and triggers), running_dispatches, log_bytes (kept in a day, UTC).
        quotas -> Jsonb,
        /// When the row was written, by the database clock.
        created_at -> Timestamptz,
        /// When the row was last changed, by the database clock.
        updated_at -> Timestamptz,
        /// Why it is paused, for people; NULL unless paused.
        pause_reason -> Nullable<Text>,
    }
}

diesel::table! {
    /// Queues in which dispatches wait and that no living worker serves, as the leader last saw it.
    unserved_queues (queue) {
        /// Name of the queue; workers serve queues by name, for all tenants.
        queue -> Text,
        /// Since when the oldest of its dispatches could have been claimed, when that was noticed.
        since -> Timestamptz,
        /// When the leader noticed, by the database clock.
        noticed_at -> Timestamptz,
    }
}

diesel::table! {
    /// People who sign in. A user belongs to tenants through memberships.
    users (id) {
        /// Random identifier.
        id -> Uuid,
        /// Address the user signs in with; unique whatever its case.
        email -> Text,
        /// Name shown to people.
        display_name -> Text,
        /// Argon2 hash in PHC form; NULL for users who sign in by other means.
        password_hash -> Nullable<Text>,
        /// False refuses every sign-in and every key of this user.
        is_active -> Bool,
        /// May operate the installation itself: tenants, users, leadership, workers, keys of secrets.
        is_system_operator -> Bool,
        /// Last successful sign-in; NULL before the first.
        last_login_at -> Nullable<Timestamptz>,
        /// When the row was written, by the database clock.
        created_at -> Timestamptz,
        /// When the row was last changed, by the database clock.
        updated_at -> Timestamptz,
    }
}

diesel::table! {
    /// One row per claim statement: which worker took which dispatches. Every running dispatch is named here; some named ones have finished. Removed when all have.
    worker_claims (id) {
        /// Identifier.
        id -> Int8,
        /// The worker. It cannot be unregistered while it has claims.
        worker_id -> Uuid,
        /// When, by the database clock.
        claimed_at -> Timestamptz,
        /// The dispatches taken.
        dispatch_ids -> Array<Uuid>,
        /// Longest run of each of the dispatches, its grace included, in seconds and in the same order; NULL when a worker of an older release claimed them.
        limit_seconds -> Nullable<Array<Int4>>,
    }
}

diesel::table! {
    /// Worker processes and their leases: a worker is alive by this one row, not by one row per dispatch.
    worker_registration (worker_id) {
        /// Random identity made when the process started.
        worker_id -> Uuid,
        /// Host, a label only.
        hostname -> Text,
        /// Operating system and architecture.
        platform -> Text,
        /// Process id on that host, a label only.
        process_id -> Int4,
        /// Version of the program.
        version -> Text,
        /// Queues it serves.
        queues -> Array<Text>,
        /// How many dispatches it runs at once.
        concurrency -> Int4,
        /// How long the worker trusts itself without a heartbeat, in milliseconds: it is not given up earlier, whatever the scheduler is set to.
        lease_ms -> Int4,
        /// IDLE, BUSY, DRAINING (takes no new work) or OFFLINE (lease expired; its work was given to others).
        status -> Text,
        /// How many dispatches it ran at the last heartbeat.
        running -> Int4,
        /// How many attempts it has finished, as of the last heartbeat.
        jobs_processed -> Int8,
        /// When the process registered, by the database clock.
        started_at -> Timestamptz,
        /// When it last said it lives, by the database clock. Not indexed, so that a heartbeat stays in its page.
        last_heartbeat -> Timestamptz,
        /// When its lease was found expired; NULL unless OFFLINE.
        offline_since -> Nullable<Timestamptz>,
        /// When an operator asked it to take no new work; NULL otherwise.
        drain_requested_at -> Nullable<Timestamptz>,
    }
}

/// History of the jobs that back up and restore the main schema.
pub mod maintenance {
    diesel::table! {
        /// History: one row per finished attempt of backup_infrastructure jobs, by month of its start. It outlives the dispatch and the job, so it refers to them by value.
        maintenance.job_execution_log (tenant_id, id, started_at) {
            /// Time-ordered identifier of the attempt (UUID version 7, from the database clock).
            id -> Uuid,
            /// Owner.
            tenant_id -> Uuid,
            /// Project of the job; NULL for jobs of other scopes.
            project_id -> Nullable<Uuid>,
            /// The job.
            job_id -> Uuid,
            /// The dispatch.
            dispatch_id -> Uuid,
            /// Attempts of a dispatch are numbered 1 to n without gaps.
            attempt -> Int4,
            /// How it ended. LOST: its worker was given up. RELEASED: its worker stopped and gave it back.
            status -> Text,
            /// The fire time, or when the trigger was made.
            scheduled_for -> Timestamptz,
            /// When it started, by the database clock.
            started_at -> Timestamptz,
            /// When it ended, by the database clock.
            completed_at -> Timestamptz,
            /// How long it ran in milliseconds, by the monotonic clock of the worker (of the database for LOST).
            duration_ms -> Int8,
            /// Exit code of a process, or HTTP status.
            exit_code -> Nullable<Int4>,
            /// What the handler returned.
            result -> Nullable<Jsonb>,
            /// Kind of error, stable for programs.
            error_class -> Nullable<Text>,
            /// What went wrong, for people.
            error_message -> Nullable<Text>,
            /// Where it went wrong, if the handler could tell.
            traceback -> Nullable<Text>,
            /// Figures the handler reported.
            metrics -> Nullable<Jsonb>,
            /// How much output it wrote in all, kept or not.
            output_bytes -> Int8,
            /// The worker.
            worker_id -> Nullable<Uuid>,
            /// Token of the claim it ran under.
            claim_token -> Int8,
            /// What created the dispatch.
            triggered_by -> Text,
        }
    }

    diesel::table! {
        /// What attempts of backup_infrastructure jobs wrote, in chunks, by month of their start.
        maintenance.job_execution_output (tenant_id, execution_id, stream, chunk, started_at) {
            /// Owner.
            tenant_id -> Uuid,
            /// The attempt.
            execution_id -> Uuid,
            /// When the attempt started; decides the partition.
            started_at -> Timestamptz,
            /// Where it was written.
            stream -> Text,
            /// Position in the stream, from 0.
            chunk -> Int4,
            /// The text; bytes that are not UTF-8, and NUL, are replaced.
            content -> Text,
            /// How many bytes between this chunk and the one before were not kept.
            dropped_bytes -> Int8,
            /// When the row was written, by the database clock.
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
