DROP TABLE skipped_fires;
DROP TABLE worker_claims;
DROP TABLE job_dispatch;
DROP SEQUENCE claim_token_seq;
