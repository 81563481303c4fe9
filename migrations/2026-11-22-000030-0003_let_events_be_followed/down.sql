DROP POLICY followed ON events;
