-- Whether the stream must be read, and the leader's position in it.
SELECT EXISTS (SELECT FROM notification_rules r WHERE r.is_active),
       EXISTS (SELECT FROM notification_deliveries d WHERE d.status = 'waiting'),
       EXISTS (SELECT FROM notification_deliveries d WHERE d.status = 'sending'),
       coalesce((SELECT c.server = 0 OR c.moved_at < clock_timestamp() - make_interval(secs => $1::double precision) FROM notification_cursor c), true)
