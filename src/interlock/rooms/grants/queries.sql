-- name: open_grants
-- The oldest open grants of a task after a given one.
SELECT body FROM grants
WHERE tenant = :tenant AND task = :task AND standing = :standing AND open_until > :now
  AND (issued_at > :after_at OR (issued_at = :after_at AND id > :after_id))
ORDER BY issued_at, id LIMIT :limit;

-- name: latest_grants
-- The newest grants of a task, whatever became of them.
SELECT body FROM grants WHERE tenant = :tenant AND task = :task ORDER BY id DESC LIMIT :limit;

-- name: overdue_grants
-- Grants whose time has run out, the longest overdue first.
SELECT body FROM grants WHERE open_until <= :now ORDER BY open_until, tenant, id LIMIT :limit;

-- name: list_grants
-- A tenant's grants, newest first.
SELECT body FROM grants WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_grants_by_task
-- Grants of one task, newest first.
SELECT body FROM grants WHERE tenant = :tenant AND task = :task AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_grants_by_state
-- Grants that count as being in one state now, newest first: an overdue one is expired, not open.
WITH late AS MATERIALIZED (SELECT tenant, id FROM grants WHERE :state = 'expired' AND open_until <= :now)
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM grants
    WHERE tenant = :tenant AND state = :state AND id < :before AND (open_until IS NULL OR open_until > :now)
    ORDER BY id DESC LIMIT :limit
  ) AS noted
  UNION ALL
  SELECT id, (SELECT g.body FROM grants g WHERE g.tenant = :tenant AND g.id = overdue.id) FROM (
    SELECT id FROM late WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit
  ) AS overdue
) AS both_kinds ORDER BY id DESC LIMIT :limit;

-- name: list_grants_by_task_and_state
-- Grants of one task that count as being in one state now, newest first.
WITH late AS MATERIALIZED (SELECT tenant, task, id FROM grants WHERE :state = 'expired' AND open_until <= :now)
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM grants
    WHERE tenant = :tenant AND state = :state AND task = :task AND id < :before
      AND (open_until IS NULL OR open_until > :now)
    ORDER BY id DESC LIMIT :limit
  ) AS noted
  UNION ALL
  SELECT id, (SELECT g.body FROM grants g WHERE g.tenant = :tenant AND g.id = overdue.id) FROM (
    SELECT id FROM late WHERE tenant = :tenant AND task = :task AND id < :before ORDER BY id DESC LIMIT :limit
  ) AS overdue
) AS both_kinds ORDER BY id DESC LIMIT :limit;

-- name: list_uses
-- Uses of one grant with their numbers, newest first.
SELECT number, body FROM grant_uses WHERE tenant = :tenant AND grant_id = :grant_id AND number < :before
ORDER BY number DESC LIMIT :limit;

-- name: account_grants
-- A tenant's grants, newest first, each with how many uses of it are recorded.
SELECT g.body, (SELECT count(*) FROM grant_uses u WHERE u.tenant = g.tenant AND u.grant_id = g.id)
FROM grants g WHERE g.tenant = :tenant AND g.id < :before ORDER BY g.id DESC LIMIT :limit;

-- name: list_signers
-- A tenant's signers with when they came, newest first.
SELECT added_at, id, body FROM signers
WHERE tenant = :tenant AND (added_at < :before_at OR (added_at = :before_at AND id < :before_id))
ORDER BY added_at DESC, id DESC LIMIT :limit;
