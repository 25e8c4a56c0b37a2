-- name: runs_under_way
-- Runs with steps that are not over, oldest first, in every tenant, after the last one looked at.
SELECT tenant, id FROM run_progress WHERE is_over = 0 AND id > :after ORDER BY id LIMIT :limit;

-- name: list_workflows
-- A tenant's workflows by id.
SELECT body FROM workflows WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit;
