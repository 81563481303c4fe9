-- FOR KEY SHARE is compatible with renewals and with other transactions of this leader. A take-over
-- (FOR UPDATE) waits until this transaction ends.
SELECT clock_timestamp() FROM scheduler_instances WHERE id = $1 AND is_leader AND term = $2 FOR KEY SHARE
