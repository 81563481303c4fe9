DROP VIEW missed_fires;
DROP VIEW throughput;
DROP VIEW worker_utilisation;
DROP VIEW stuck_dispatches;
