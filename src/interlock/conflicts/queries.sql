-- name: list_conflicts
-- A tenant's conflicts, newest first.
SELECT body FROM conflicts WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_conflicts_by_state
-- A tenant's conflicts in one state, newest first.
SELECT body FROM conflicts WHERE tenant = :tenant AND state = :state AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_conflicts_by_kind
-- A tenant's conflicts of one kind, newest first.
SELECT body FROM conflicts WHERE tenant = :tenant AND kind = :kind AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_conflicts_by_state_and_kind
-- A tenant's conflicts of one kind in one state, newest first.
SELECT body FROM conflicts WHERE tenant = :tenant AND state = :state AND kind = :kind AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_open_conflicts_of_target
-- Open conflicts over one target, newest first.
SELECT body FROM conflicts WHERE tenant = :tenant AND target = :target AND state = 'open' AND id < :before
ORDER BY id DESC LIMIT :limit;
