-- name: overdue_effects
-- Attempts whose time has run out, the longest overdue first, in every tenant.
SELECT body FROM effects WHERE overdue_at IS NOT NULL AND overdue_at <= :now
ORDER BY overdue_at, tenant, id LIMIT :limit;

-- name: list_effects
-- A tenant's effects, the newest first.
SELECT body FROM effects WHERE tenant = :tenant AND uid < :before ORDER BY uid DESC LIMIT :limit;

-- name: list_effects_by_state
-- A tenant's effects in one state, the newest first.
SELECT body FROM effects WHERE tenant = :tenant AND state = :state AND uid < :before
ORDER BY uid DESC LIMIT :limit;
