-- name: jobs_waiting_on
-- Jobs that have not run yet and are bound to another version of one target, oldest first.
SELECT body FROM jobs WHERE tenant = :tenant AND target = :target AND state IN ('APPROVAL', 'PENDING')
  AND target_version <> :current
ORDER BY id LIMIT :limit;

-- name: list_jobs_waiting_on
-- Jobs that have not run yet and would change one target, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND target = :target AND state IN ('APPROVAL', 'PENDING')
ORDER BY id DESC LIMIT :limit;

-- name: count_jobs_waiting_on
-- How many jobs that have not run yet would change one target, counted up to a bound.
SELECT count(*) FROM (
  SELECT 1 FROM jobs WHERE tenant = :tenant AND target = :target AND state IN ('APPROVAL', 'PENDING') LIMIT :limit
) AS waiting;

-- name: list_targets
-- A tenant's targets by key.
SELECT body FROM targets WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit;

-- name: list_targets_under
-- A tenant's targets whose keys lie in a range, by key.
SELECT body FROM targets WHERE tenant = :tenant AND id >= :low AND id < :high
ORDER BY id LIMIT :limit;
