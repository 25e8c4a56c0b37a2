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

-- name: latest_taken
-- Claimed jobs of one topic, newest first, among its newest; as a range, or PostgreSQL may walk through every topic.
SELECT (SELECT j.body FROM jobs j WHERE j.tenant = :tenant AND j.id = taken.id) FROM (
  SELECT id FROM (
    SELECT id, state FROM jobs WHERE tenant = :tenant AND topic >= :topic AND topic <= :topic AND id > ''
    ORDER BY topic DESC, id DESC LIMIT :among
  ) AS latest WHERE state IN ('RUNNING', 'SUCCEEDED', 'FAILED') ORDER BY id DESC LIMIT :limit
) AS taken ORDER BY id DESC LIMIT :limit;

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

-- name: list_requests_by_urgency
-- What waits for people in a window, as far as topic and groups fit, the most urgent first; bodies of those alone are read.
SELECT (SELECT j.body FROM jobs j WHERE j.tenant = :tenant AND j.id = w.id), w.decide_by, w.id FROM (
  SELECT id, decide_by, topic, deciders FROM jobs
  WHERE tenant = :tenant AND decide_by IS NOT NULL AND (decide_by, id) > (:after_at, :after_id)
  ORDER BY decide_by, id LIMIT :window
) AS w
WHERE (:topic = '' OR w.topic = :topic) AND (w.deciders = '' OR w.deciders LIKE :group_1 ESCAPE '!' OR w.deciders LIKE :group_2 ESCAPE '!' OR w.deciders LIKE :group_3 ESCAPE '!' OR w.deciders LIKE :group_4 ESCAPE '!'
  OR w.deciders LIKE :group_5 ESCAPE '!' OR w.deciders LIKE :group_6 ESCAPE '!' OR w.deciders LIKE :group_7 ESCAPE '!' OR w.deciders LIKE :group_8 ESCAPE '!')
ORDER BY w.decide_by, w.id LIMIT :limit;

-- name: end_of_window_by_urgency
-- Where a window over what waits for people ends, the most urgent first; nothing if all of it is in the window.
SELECT decide_by, id FROM jobs
WHERE tenant = :tenant AND decide_by IS NOT NULL AND (decide_by, id) > (:after_at, :after_id)
ORDER BY decide_by, id LIMIT 1 OFFSET :window;

-- name: list_requests_by_age
-- What waits for people in a window, as far as topic and groups fit, the newest first; bodies of those alone are read.
SELECT (SELECT j.body FROM jobs j WHERE j.tenant = :tenant AND j.id = w.id), w.decide_by, w.id FROM (
  SELECT id, decide_by, topic, deciders FROM jobs
  WHERE tenant = :tenant AND state = 'APPROVAL' AND id < :after_id
  ORDER BY id DESC LIMIT :window
) AS w
WHERE (:topic = '' OR w.topic = :topic) AND (w.deciders = '' OR w.deciders LIKE :group_1 ESCAPE '!' OR w.deciders LIKE :group_2 ESCAPE '!' OR w.deciders LIKE :group_3 ESCAPE '!' OR w.deciders LIKE :group_4 ESCAPE '!'
  OR w.deciders LIKE :group_5 ESCAPE '!' OR w.deciders LIKE :group_6 ESCAPE '!' OR w.deciders LIKE :group_7 ESCAPE '!' OR w.deciders LIKE :group_8 ESCAPE '!')
ORDER BY w.id DESC LIMIT :limit;

-- name: end_of_window_by_age
-- Where a window over what waits for people ends, the newest first; nothing if all of it is in the window.
SELECT decide_by, id FROM jobs WHERE tenant = :tenant AND state = 'APPROVAL' AND id < :after_id
ORDER BY id DESC LIMIT 1 OFFSET :window;

-- name: count_requests
-- How many requests of a tenant wait for people, expired or not, counted up to a bound.
SELECT count(*) FROM (
  SELECT 1 FROM jobs WHERE tenant = :tenant AND decide_by IS NOT NULL LIMIT :limit
) AS waiting;

-- name: due_requests
-- Requests of a tenant that are due, which may be expired by now, counted as waiting until they are swept.
WITH overdue AS MATERIALIZED (SELECT tenant, state, id FROM jobs WHERE due_at <= :now)
SELECT (SELECT j.body FROM jobs j WHERE j.tenant = :tenant AND j.id = o.id) FROM overdue o
WHERE o.tenant = :tenant AND o.state = 'APPROVAL' ORDER BY o.id LIMIT :limit;

-- name: count_dead_of_tenant
-- How many dead letters a tenant has, counted up to a bound.
SELECT count(*) FROM (SELECT 1 FROM jobs WHERE tenant = :tenant AND state = 'FAILED' LIMIT :limit) AS dead;
