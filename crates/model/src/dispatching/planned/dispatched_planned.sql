-- One row. The clock is NULL if the instance does not lead with this term.
SELECT (SELECT l.now FROM leader l),
       (SELECT count(*) FROM moved),
       (SELECT coalesce(array_agg(c.id), '{}') FROM created c)
