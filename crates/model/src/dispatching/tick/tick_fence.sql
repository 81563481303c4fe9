-- FOR KEY SHARE passes beside renewals and beside other transactions of this leader, and makes a take-over
-- (FOR UPDATE) wait until this transaction is over.
SELECT clock_timestamp() FROM scheduler_instances WHERE id = $1 AND is_leader AND term = $2 FOR KEY SHARE
