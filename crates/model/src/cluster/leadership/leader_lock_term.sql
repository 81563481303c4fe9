SELECT term FROM scheduler_instances WHERE id = $1 AND is_leader AND term = $2 FOR UPDATE
