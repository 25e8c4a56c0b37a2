-- A request that waits for people is found by its job's state. In a second index it was one more entry for a submit to write
-- and for a decision to take away, on a page of its own for a job from anywhere.
DROP INDEX jobs_by_approval;
CREATE INDEX jobs_by_approval ON jobs (tenant, approval_state, id) WHERE approval_state <> 'pending';
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('jobs', 'jobs_by_approval', '1000000 1000000 20000 1');
ANALYZE sqlite_schema;
