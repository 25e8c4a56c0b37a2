-- name: list_approvals
-- A tenant's approval requests, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND approval_state IS NOT NULL AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_approvals_by_state
-- A tenant's approval requests in one state, newest first.
SELECT body FROM jobs WHERE tenant = :tenant AND approval_state = :state AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: due_jobs
-- Jobs whose time has come (expiry or escalation), the longest overdue first, in every tenant.
SELECT body FROM jobs WHERE due_at <= :now ORDER BY due_at, tenant, id LIMIT :limit;
