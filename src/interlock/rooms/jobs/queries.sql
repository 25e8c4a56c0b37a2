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
-- A tenant's jobs of one topic in one state (an expression, or SQLite takes dead letters for a topic's), newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND state = (:state || '') AND topic = :topic AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_expired_jobs
-- A tenant's expired jobs and those that are due, which may be expired by now, newest first. Few are due at any time.
WITH overdue AS MATERIALIZED (SELECT tenant, id FROM jobs WHERE due_at <= :now)
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM jobs WHERE tenant = :tenant AND state = 'EXPIRED' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS swept
  UNION ALL
  SELECT id, (SELECT j.body FROM jobs j WHERE j.tenant = :tenant AND j.id = due.id) FROM (
    SELECT id FROM overdue WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit
  ) AS due
) AS both_kinds ORDER BY id DESC LIMIT :limit;

-- name: list_expired_jobs_by_topic
-- A tenant's jobs of one topic that are expired or due, newest first.
WITH overdue AS MATERIALIZED (SELECT tenant, topic, id FROM jobs WHERE due_at <= :now)
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM jobs
    WHERE tenant = :tenant AND state = 'EXPIRED' AND topic = :topic AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS swept
  UNION ALL
  SELECT id, (SELECT j.body FROM jobs j WHERE j.tenant = :tenant AND j.id = due.id) FROM (
    SELECT id FROM overdue WHERE tenant = :tenant AND topic = :topic AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS due
) AS both_kinds ORDER BY id DESC LIMIT :limit;

-- name: list_observed
-- Jobs that were released only because the policy was observing, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND observed IS NOT NULL AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: runnable_jobs
-- Jobs of one topic that may be claimed by now, the next to run first; naming every rank passes over those of later.
SELECT body FROM jobs
WHERE tenant = :tenant AND topic = :topic AND rank IN (0, 1, 2, 3)
  AND runnable_at IS NOT NULL AND runnable_at <= :now
ORDER BY rank, runnable_at, id LIMIT :limit;

-- name: runnable_topics
-- Topics after a given one that have a job to claim by now, each with the turn of its first (null if none yet).
WITH RECURSIVE topics (topic) AS (
  SELECT (SELECT j.topic FROM jobs j
          WHERE j.tenant = :tenant AND j.runnable_at IS NOT NULL AND j.topic > :after
          ORDER BY j.topic LIMIT 1)
  UNION ALL
  SELECT (SELECT j.topic FROM jobs j
          WHERE j.tenant = :tenant AND j.runnable_at IS NOT NULL AND j.topic > topics.topic
          ORDER BY j.topic LIMIT 1)
  FROM topics WHERE topics.topic IS NOT NULL
)
SELECT t.topic,
  (SELECT j.rank * 10000000000000000 + j.runnable_at FROM jobs j
   WHERE j.tenant = :tenant AND j.topic = t.topic AND j.rank IN (0, 1, 2, 3)
     AND j.runnable_at IS NOT NULL AND j.runnable_at <= :now
   ORDER BY j.rank, j.runnable_at, j.id LIMIT 1) AS turn
FROM topics t WHERE t.topic IS NOT NULL LIMIT :limit;

-- name: lost_jobs
-- Jobs whose leases ran out, the longest ago first, in every tenant.
SELECT body FROM jobs WHERE lease_until IS NOT NULL AND lease_until <= :now
ORDER BY lease_until, tenant, id LIMIT :limit;

-- name: unclaimed_jobs
-- Released jobs that are due to be offered again, the longest due first, in every tenant.
SELECT body FROM jobs WHERE offer_again_at IS NOT NULL AND offer_again_at <= :now
ORDER BY offer_again_at, tenant, id LIMIT :limit;

-- name: count_dead
-- How many dead letters there are in all tenants, counted up to a bound.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'FAILED' LIMIT :limit) AS dead;

-- name: count_awaiting
-- How many requests wait for people in each tenant, and the first of them, counted up to a bound in all.
SELECT tenant, count(*), min(id) FROM (
  SELECT tenant, id FROM jobs WHERE state = 'APPROVAL' ORDER BY tenant, id LIMIT :limit
) AS awaiting GROUP BY tenant LIMIT :limit;

-- name: oldest_dead
-- Dead letters of every tenant, the oldest by id first.
SELECT body FROM jobs WHERE state = 'FAILED' ORDER BY tenant, id LIMIT :limit;

-- name: list_approvals
-- A tenant's approval requests, newest first: from each state the newest, which their index has.
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM jobs WHERE tenant = :tenant AND state = 'APPROVAL' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS pending
  UNION ALL
  SELECT id, body FROM (
    SELECT id, body FROM jobs
    WHERE tenant = :tenant AND approval_state = 'approved' AND approval_state <> 'pending' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS approved
  UNION ALL
  SELECT id, body FROM (
    SELECT id, body FROM jobs
    WHERE tenant = :tenant AND approval_state = 'rejected' AND approval_state <> 'pending' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS rejected
  UNION ALL
  SELECT id, body FROM (
    SELECT id, body FROM jobs
    WHERE tenant = :tenant AND approval_state = 'expired' AND approval_state <> 'pending' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS expired
) AS every_state ORDER BY id DESC LIMIT :limit;

-- name: list_pending_approvals
-- A tenant's approval requests that wait for people, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND state = 'APPROVAL' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_decided_approvals
-- A tenant's approval requests that were decided one way, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND approval_state = :state AND approval_state <> 'pending' AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_expired_approvals
-- A tenant's expired approval requests and those that are due, which may be expired by now, newest first.
WITH overdue AS MATERIALIZED (SELECT tenant, state, id FROM jobs WHERE due_at <= :now)
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM jobs
    WHERE tenant = :tenant AND approval_state = 'expired' AND approval_state <> 'pending' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS swept
  UNION ALL
  SELECT id, (SELECT j.body FROM jobs j WHERE j.tenant = :tenant AND j.id = due.id) FROM (
    SELECT id FROM overdue WHERE tenant = :tenant AND state = 'APPROVAL' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS due
) AS both_kinds ORDER BY id DESC LIMIT :limit;

-- name: due_jobs
-- Jobs whose time has come (expiry or escalation), the longest overdue first, in every tenant.
SELECT body FROM jobs WHERE due_at <= :now ORDER BY due_at, tenant, id LIMIT :limit;
