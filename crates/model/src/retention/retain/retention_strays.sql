-- Rows of months without their own partition when they were written: few or none.
SELECT attempts, output, events FROM delete_stray_history($1::timestamptz, $2::bigint)
