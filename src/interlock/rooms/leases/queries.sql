-- name: leases_under
-- Leases not yet ended on what lies under a path, the longest to go first.
SELECT body FROM leases WHERE tenant = :tenant AND live_until IS NOT NULL
  AND resource >= :low AND resource < :high
ORDER BY live_until DESC, id LIMIT :limit;

-- name: exclusive_leases_under
-- Exclusive leases not yet ended on what lies under a path, the longest to go first.
SELECT body FROM leases WHERE tenant = :tenant AND live_until IS NOT NULL
  AND resource >= :low AND resource < :high AND mode = 'exclusive'
ORDER BY live_until DESC, id LIMIT :limit;

-- name: overdue_leases
-- Leases whose time has run out, the longest overdue first.
SELECT body FROM leases WHERE live_until <= :now ORDER BY live_until, tenant, id LIMIT :limit;

-- name: list_leases
-- A tenant's leases, newest first.
SELECT body FROM leases WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_leases_by_resource
-- Leases of one resource, newest first.
SELECT body FROM leases WHERE tenant = :tenant AND resource = :resource AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_leases_by_owner
-- Leases of one owner, newest first.
SELECT body FROM leases WHERE tenant = :tenant AND owner = :owner AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_leases_by_resource_and_owner
-- Leases of one resource and owner, newest first.
SELECT body FROM leases WHERE tenant = :tenant AND resource = :resource AND owner = :owner AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_live_leases
-- A tenant's leases that hold something by now, newest first: the board.
SELECT body FROM leases WHERE tenant = :tenant AND live_until IS NOT NULL AND live_until > :now
  AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_live_leases_by_resource
-- Leases of one resource that hold it by now, newest first.
WITH live AS MATERIALIZED (
  SELECT id FROM leases WHERE tenant = :tenant AND resource = :resource AND live_until IS NOT NULL AND live_until > :now
)
SELECT (SELECT l.body FROM leases l WHERE l.tenant = :tenant AND l.id = live.id)
FROM live WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_live_leases_by_owner
-- Leases of one owner that hold something by now, newest first.
SELECT body FROM leases WHERE tenant = :tenant AND owner = :owner AND live_until IS NOT NULL
  AND live_until > :now AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_live_leases_by_resource_and_owner
-- Leases of one resource and owner that hold it by now, newest first.
WITH live AS MATERIALIZED (
  SELECT owner, id FROM leases
  WHERE tenant = :tenant AND resource = :resource AND live_until IS NOT NULL AND live_until > :now
)
SELECT (SELECT l.body FROM leases l WHERE l.tenant = :tenant AND l.id = live.id)
FROM live WHERE owner = :owner AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_checkpoints
-- The last checkpoints of one lease, newest first.
SELECT body FROM lease_checkpoints WHERE tenant = :tenant AND lease = :lease ORDER BY number DESC LIMIT :limit;

-- name: list_nodes_with_line
-- Paths of a tenant by name, for the board.
SELECT body FROM lease_nodes WHERE tenant = :tenant AND waiting > 0 AND id > :after ORDER BY id LIMIT :limit;
