-- A transaction of its own, in which nothing is seen but what is the tenant's.
SELECT * FROM trigger_jobs($1::uuid, $2::smallint, $3::text, $4::uuid[], $5::text[], $6::boolean[], $7::text[], $8::jsonb[], $9::text[],
                           $10::text[], $11::text[], $12::text[])
