-- A request that waits for people is found by its job's state; in a second index it was one more entry for a submit to write.
DROP INDEX jobs_by_approval;
CREATE INDEX jobs_by_approval ON jobs (tenant, approval_state, id) WHERE approval_state <> 'pending';
