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
