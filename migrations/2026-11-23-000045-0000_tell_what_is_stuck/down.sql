DROP FUNCTION find_stuck(double precision, double precision, double precision, bigint);
