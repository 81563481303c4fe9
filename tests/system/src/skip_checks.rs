//! Whether what is recorded as skipped was skipped for the reason that the record gives, as far as the witness tells.
//!
//! A reason is a statement about the job at the instant of the decision: that it was paused, that so many of its dispatches were open, that it was late.
//! Read-only, and other code than that which decides.

use crate::checks::Invariant;

/// The rule; see [`crate::checks`].
pub(crate) const TRUE_SKIPS: Invariant = Invariant {
    name: "2: the reason of every skip was true: paused, others open, too late, disabled, excluded, over its quota, ended",
    checked: "SELECT count(*) FROM witness.skips",
    broken: "SELECT j.name, s.reason, s.first_fire_at, s.last_fire_at, s.at, s.open_before, s.open_now, s.skip_id
         FROM witness.skips s JOIN scheduled_jobs j ON j.id = s.job_id
         -- What the job was switched to by others, last, and what the transaction switched itself.
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
             -- As many were open as may be, one of them before the transaction began; where room is made, what was open may be cancelled by it.
             WHEN 'overlap' THEN s.overlap_policy = 'allow' OR (s.open_before = 0 AND s.overlap_policy <> 'cancel_oldest')
                  OR s.open_now < s.max_instances + CASE s.overlap_policy WHEN 'queue' THEN 1000 ELSE 0 END
             -- Beyond the grace, and for a later one where the policy catches up; or due together with as many as may be open, none of which was open
             -- before; or overtaken by a change of the job.
             WHEN 'misfire' THEN NOT (is_late AND (s.misfire_policy = 'skip' OR has_later))
                  AND NOT (s.overlap_policy IN ('skip', 'cancel_oldest') AND s.open_before = 0 AND s.open_now >= s.max_instances)
                  AND NOT (was_changed AND s.last_fire_at <= s.at)
             -- Held back until it was too late, by a quota that was used up in a minute since it was due.
             WHEN 'quota' THEN s.quota IS NULL OR NOT is_late OR (s.quota > 0 AND NOT EXISTS (
                 SELECT FROM job_dispatch d WHERE d.tenant_id = j.tenant_id AND d.trigger_id IS NULL
                   AND d.created_at BETWEEN s.first_fire_at - interval '1 minute' AND s.at
                 GROUP BY date_trunc('minute', d.created_at) HAVING count(*) >= s.quota))
             WHEN 'calendar' THEN s.calendars = '{}'
             WHEN 'ended' THEN s.may_have_ended IS NOT TRUE
             -- Clocks change within two days of it.
             WHEN 'dst_suppressed' THEN (SELECT count(DISTINCT (x.at AT TIME ZONE s.timezone) - (x.at AT TIME ZONE 'UTC'))
                                         FROM unnest(ARRAY[s.first_fire_at - interval '2 days', s.last_fire_at + interval '2 days']) AS x (at)) < 2
             ELSE true END",
};
