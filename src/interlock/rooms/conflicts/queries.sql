-- name: list_conflicts
-- A tenant's conflicts, newest first, with the count of their open groups.
SELECT c.body,
  (SELECT g.repeats FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1),
  (SELECT g.last_seen_at FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1)
FROM conflicts c
WHERE c.tenant = :tenant AND c.id < :before ORDER BY c.id DESC LIMIT :limit;

-- name: list_conflicts_by_state
-- A tenant's conflicts in one state, newest first, with the count of their open groups.
SELECT c.body,
  (SELECT g.repeats FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1),
  (SELECT g.last_seen_at FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1)
FROM conflicts c
WHERE c.tenant = :tenant AND c.state = :state AND c.id < :before ORDER BY c.id DESC LIMIT :limit;

-- name: list_conflicts_by_kind
-- A tenant's conflicts of one kind, newest first, with the count of their open groups.
SELECT c.body,
  (SELECT g.repeats FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1),
  (SELECT g.last_seen_at FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1)
FROM conflicts c
WHERE c.tenant = :tenant AND c.kind = :kind AND c.id < :before ORDER BY c.id DESC LIMIT :limit;

-- name: list_conflicts_by_state_and_kind
-- A tenant's conflicts of one kind in one state, newest first, with the count of their open groups.
SELECT c.body,
  (SELECT g.repeats FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1),
  (SELECT g.last_seen_at FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1)
FROM conflicts c
WHERE c.tenant = :tenant AND c.state = :state AND c.kind = :kind AND c.id < :before
ORDER BY c.id DESC LIMIT :limit;

-- name: list_open_conflicts_of_target
-- Open conflicts over one target, newest first, with the count of their groups; in an order that only their index has.
SELECT c.body,
  (SELECT g.repeats FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1),
  (SELECT g.last_seen_at FROM conflict_groups g WHERE g.tenant = c.tenant AND g.conflict_id = c.id LIMIT 1)
FROM conflicts c
WHERE c.tenant = :tenant AND c.target >= :target AND c.target <= :target AND c.state = 'open' AND c.id < :before
ORDER BY c.target DESC, c.id DESC LIMIT :limit;

-- name: group_of_conflict
-- How often the collision of one open conflict was repeated, and when last.
SELECT repeats, last_seen_at FROM conflict_groups WHERE tenant = :tenant AND conflict_id = :conflict_id LIMIT 1;

-- name: count_open_conflicts
-- How many conflicts of a tenant are open, counted up to a bound.
SELECT count(*) FROM (
  SELECT 1 FROM conflicts WHERE tenant = :tenant AND state = 'open' LIMIT :limit
) AS unresolved;
