-- name: leases_under
-- Leases not yet ended on what lies under a path.
SELECT body FROM leases WHERE tenant = :tenant AND live_until IS NOT NULL
  AND resource >= :low AND resource < :high
ORDER BY resource, id LIMIT :limit;

-- name: overdue_leases
-- Leases whose time has run out, the longest overdue first.
SELECT body FROM leases WHERE live_until <= :now ORDER BY live_until LIMIT :limit;

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
-- A tenant's leases that nobody has ended yet, newest first: the board.
SELECT body FROM leases WHERE tenant = :tenant AND live_until IS NOT NULL AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_nodes_with_line
-- Paths of a tenant by name, for the board.
SELECT body FROM lease_nodes WHERE tenant = :tenant AND waiting > 0 AND id > :after ORDER BY id LIMIT :limit;
