-- What running attempts have told so far: their output as it comes, and how far they are (WRK-7).
--
-- Both tables are a view of the present for people who watch. The record of an attempt is written when it ends and holds the output
-- again, so nothing here has to outlive a crash of the database: the tables are UNLOGGED, which leaves the write-ahead log, its
-- archive and every standby without what may be the bulk of all that workers write. After a crash they are empty, and what running
-- attempts tell from then on appears again.
--
-- A worker writes for all of its attempts at once, under their claim tokens, and takes rows away when their attempts are over; the
-- leader removes what dead workers leave. There is no foreign key: it would lock the row of the dispatch, which is the hot table.

CREATE UNLOGGED TABLE live_output (
    tenant_id   uuid        NOT NULL,
    dispatch_id uuid        NOT NULL,
    claim_token bigint      NOT NULL,
    seq         bigint      NOT NULL,
    stream      text        NOT NULL,
    starts_at   bigint      NOT NULL,
    content     text        NOT NULL,
    written_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT live_output_pkey PRIMARY KEY (tenant_id, dispatch_id, claim_token, seq),
    CONSTRAINT live_output_seq_check CHECK (seq > 0),
    CONSTRAINT live_output_stream_check CHECK (stream IN ('stdout', 'stderr', 'log')),
    CONSTRAINT live_output_starts_at_check CHECK (starts_at >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

COMMENT ON TABLE  live_output             IS 'What running attempts have written lately. It goes when the attempt is over; the record of it is job_execution_output.';
COMMENT ON COLUMN live_output.tenant_id   IS 'Owner.';
COMMENT ON COLUMN live_output.dispatch_id IS 'The dispatch.';
COMMENT ON COLUMN live_output.claim_token IS 'Token of the claim under which the attempt runs.';
COMMENT ON COLUMN live_output.seq         IS 'Order of the pieces of an attempt over all its streams, from 1; numbers may be missing at the beginning, as the oldest pieces go.';
COMMENT ON COLUMN live_output.stream      IS 'Where it was written.';
COMMENT ON COLUMN live_output.starts_at   IS 'Bytes of the stream before this piece, counted as stored text; a gap to the piece before was not kept.';
COMMENT ON COLUMN live_output.content     IS 'The text; bytes that are not UTF-8, and NUL, are replaced.';
COMMENT ON COLUMN live_output.written_at  IS 'When the row was written, by the database clock.';

CREATE UNLOGGED TABLE live_progress (
    tenant_id   uuid        NOT NULL,
    dispatch_id uuid        NOT NULL,
    claim_token bigint      NOT NULL,
    percent     real,
    message     text        NOT NULL,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT live_progress_pkey PRIMARY KEY (tenant_id, dispatch_id),
    CONSTRAINT live_progress_percent_check CHECK (percent BETWEEN 0 AND 100)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

COMMENT ON TABLE  live_progress             IS 'How far running attempts have come, as they last told it. It goes when the attempt is over.';
COMMENT ON COLUMN live_progress.tenant_id   IS 'Owner.';
COMMENT ON COLUMN live_progress.dispatch_id IS 'The dispatch.';
COMMENT ON COLUMN live_progress.claim_token IS 'Token of the claim under which the attempt runs; one of an earlier claim says nothing about the present one.';
COMMENT ON COLUMN live_progress.percent     IS 'From 0 to 100; NULL where that is not known.';
COMMENT ON COLUMN live_progress.message     IS 'What it does, for people.';
COMMENT ON COLUMN live_progress.updated_at  IS 'When it was told, by the database clock.';
