-- name: open_grants
-- The oldest open grants of a task.
SELECT body FROM grants WHERE tenant = :tenant AND task = :task AND standing = :standing AND open_until > :now
ORDER BY id LIMIT :limit;

-- name: overdue_grants
-- Grants whose time has run out, the longest overdue first.
SELECT body FROM grants WHERE open_until <= :now ORDER BY open_until LIMIT :limit;

-- name: list_grants
-- A tenant's grants, newest first.
SELECT body FROM grants WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_grants_by_task
-- Grants of one task, newest first.
SELECT body FROM grants WHERE tenant = :tenant AND task = :task AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_grants_by_state
-- Grants in one state, newest first.
SELECT body FROM grants WHERE tenant = :tenant AND state = :state AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_grants_by_task_and_state
-- Grants of one task in one state, newest first.
SELECT body FROM grants WHERE tenant = :tenant AND task = :task AND state = :state AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_uses
-- Uses of one grant, newest first.
SELECT body FROM grant_uses WHERE tenant = :tenant AND grant_id = :grant_id AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_signers
-- A tenant's signers by fingerprint.
SELECT body FROM signers WHERE tenant = :tenant AND id > :after ORDER BY id LIMIT :limit;
