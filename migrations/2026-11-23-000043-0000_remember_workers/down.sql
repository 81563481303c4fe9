DROP TRIGGER worker_registration_known ON worker_registration;
DROP FUNCTION note_known_worker();
DROP TABLE known_workers;
