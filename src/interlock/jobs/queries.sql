-- name: list_jobs
-- A tenant's jobs, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_jobs_by_state
-- A tenant's jobs in one state, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND state = :state AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_jobs_by_topic
-- A tenant's jobs of one topic, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND topic = :topic AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_jobs_by_state_and_topic
-- A tenant's jobs of one topic in one state, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND state = :state AND topic = :topic AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_observed
-- Jobs that were released only because the policy was observing, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND observed IS NOT NULL AND id < :before
ORDER BY id DESC LIMIT :limit;
