DROP VIEW event_positions, event_stream, run_end_events, run_start_events;
DROP TABLE uncounted_openings, uncounted_ends, run_end_batches, run_start_batches, events;
DROP SEQUENCE event_id_seq;
