DROP TABLE live_progress;
DROP TABLE live_output;
