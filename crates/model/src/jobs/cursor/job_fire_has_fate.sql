WITH input AS (SELECT $1::uuid AS job_id, $2::timestamptz AS fire_at)
SELECT EXISTS (SELECT 1 FROM job_dispatch d
               WHERE d.job_id = input.job_id AND d.scheduled_for = input.fire_at AND d.trigger_id IS NULL)
    OR EXISTS (SELECT 1 FROM skipped_fires s
               WHERE s.job_id = input.job_id AND s.trigger_id IS NULL AND input.fire_at BETWEEN s.first_fire_at AND s.last_fire_at)
FROM input
