-- name: jobs_waiting_on
-- Jobs that have not run yet and would change one target, oldest first.
SELECT body FROM jobs WHERE tenant = :tenant AND target = :target AND state IN ('APPROVAL', 'PENDING')
ORDER BY id LIMIT :limit;

-- name: list_targets
-- A tenant's targets by key.
SELECT body FROM targets WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit;
