-- The next deliveries to get a run: for each channel as many as it has room for.
WITH input AS (SELECT $1::bigint AS room, $2::bigint AS max_rows),
channels AS (SELECT DISTINCT d.tenant_id, d.channel_id FROM notification_deliveries d WHERE d.status = 'waiting')
SELECT w.tenant_id, w.id
FROM input i
CROSS JOIN channels c
CROSS JOIN LATERAL (SELECT count(*) AS sending FROM notification_deliveries s
                    WHERE s.tenant_id = c.tenant_id AND s.channel_id = c.channel_id AND s.status = 'sending') AS s
CROSS JOIN LATERAL (SELECT d.tenant_id, d.id FROM notification_deliveries d
                    WHERE d.tenant_id = c.tenant_id AND d.channel_id = c.channel_id AND d.status = 'waiting'
                    ORDER BY d.id
                    LIMIT greatest(i.room - s.sending, 0)) AS w
ORDER BY w.id
LIMIT (SELECT max_rows FROM input)
