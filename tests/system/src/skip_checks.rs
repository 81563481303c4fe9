//! Checks the reason of each recorded skip against the data of the witness.
//!
//! A reason is a statement about the job at the decision: it was paused, so many of its dispatches
//! were open, it was late. Read-only, and independent of the deciding code.

use crate::invariant::Invariant;

pub(crate) const TRUE_SKIPS: Invariant = Invariant {
    name: "2: the reason of every skip was true: paused, overlap, too late, disabled, excluded, over its quota, ended",
    checked: "SELECT count(*) FROM witness.skips",
    broken: "SELECT j.name, s.reason, s.first_fire_at, s.last_fire_at, s.at, s.open_before, s.open_now, s.skip_id
         FROM witness.skips s JOIN scheduled_jobs j ON j.id = s.job_id
         -- The last switch of the job by another transaction, and the switches of the transaction
         -- itself.
         CROSS JOIN LATERAL (
             SELECT coalesce(bool_or(w.is_paused AND (s.last_fire_at < w.paused_until) IS NOT FALSE), false) AS was_paused,
                    coalesce(bool_or(NOT w.is_enabled), false) AS was_disabled,
                    coalesce(bool_or(w.transaction_id = s.transaction_id), false) AS was_changed
             FROM witness.switches w
             WHERE w.job_id = s.job_id AND w.id <= s.last_switch
               AND (w.transaction_id = s.transaction_id
                    OR w.id = (SELECT max(b.id) FROM witness.switches b
                               WHERE b.job_id = s.job_id AND b.id <= s.last_switch AND b.transaction_id <> s.transaction_id))) state
         CROSS JOIN LATERAL (
             SELECT s.last_fire_at < s.at - s.grace AS is_late,
                    EXISTS (SELECT FROM job_dispatch d WHERE d.job_id = s.job_id AND d.trigger_id IS NULL
                              AND d.scheduled_for > s.last_fire_at AND d.scheduled_for <= s.at)
                    OR EXISTS (SELECT FROM witness.skips l WHERE l.job_id = s.job_id AND l.trigger_id IS NULL
                                 AND l.first_fire_at > s.last_fire_at AND l.first_fire_at <= s.at) AS has_later) fires
         WHERE CASE s.reason
             WHEN 'paused_job' THEN NOT was_paused
             WHEN 'paused_tenant' THEN NOT s.is_tenant_paused
             WHEN 'paused_project' THEN NOT s.is_project_paused
             WHEN 'paused_queue' THEN NOT s.is_queue_paused
             WHEN 'paused_function' THEN NOT s.is_function_paused
             WHEN 'disabled' THEN NOT was_disabled AND s.is_function_active
             -- The limit of open dispatches was reached, with one of them open before the
             -- transaction began. With `cancel_oldest`, the transaction itself may cancel the open
             -- ones.
             WHEN 'overlap' THEN s.overlap_policy = 'allow' OR (s.open_before = 0 AND s.overlap_policy <> 'cancel_oldest')
                  OR s.open_now < s.max_instances + CASE s.overlap_policy WHEN 'queue' THEN 1000 ELSE 0 END
             -- Past the grace, and superseded by a later fire time if the policy catches up. Or due
             -- together with as many fire times as may be open, none of which was open before. Or
             -- superseded by a change of the job.
             WHEN 'misfire' THEN NOT (is_late AND (s.misfire_policy = 'skip' OR has_later))
                  AND NOT (s.overlap_policy IN ('skip', 'cancel_oldest') AND s.open_before = 0 AND s.open_now >= s.max_instances)
                  AND NOT (was_changed AND s.last_fire_at <= s.at)
             -- Held back past the grace by a quota that was used up in a minute since the due time.
             WHEN 'quota' THEN s.quota IS NULL OR NOT is_late OR (s.quota > 0 AND NOT EXISTS (
                 SELECT FROM job_dispatch d WHERE d.tenant_id = j.tenant_id AND d.trigger_id IS NULL
                   AND d.created_at BETWEEN s.first_fire_at - interval '1 minute' AND s.at
                 GROUP BY date_trunc('minute', d.created_at) HAVING count(*) >= s.quota))
             WHEN 'calendar' THEN s.calendars = '{}'
             WHEN 'ended' THEN s.may_have_ended IS NOT TRUE
             -- A clock change is within two days of the fire time.
             WHEN 'dst_suppressed' THEN (SELECT count(DISTINCT (x.at AT TIME ZONE s.timezone) - (x.at AT TIME ZONE 'UTC'))
                                         FROM unnest(ARRAY[s.first_fire_at - interval '2 days', s.last_fire_at + interval '2 days']) AS x (at)) < 2
             ELSE true END",
};
