-- What was granted is what migration 27 meant to grant, and goes with it.
SELECT 1;
