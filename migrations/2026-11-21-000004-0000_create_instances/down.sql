DROP TABLE worker_registration;
DROP TABLE leader_terms;
DROP TABLE scheduler_instances;
DROP SEQUENCE leader_term_seq;
