-- name: overdue_effects
-- Attempts whose time has run out, the longest overdue first, in every tenant.
SELECT body FROM effects WHERE overdue_at IS NOT NULL AND overdue_at <= :now
ORDER BY overdue_at, tenant, id LIMIT :limit;

-- name: list_effects
-- A tenant's effects, the newest first.
SELECT body FROM effects WHERE tenant = :tenant AND uid < :before ORDER BY uid DESC LIMIT :limit;

-- name: list_effects_by_state
-- A tenant's effects in one state by now (an overdue attempt is no longer in progress), newest first, as their index has.
SELECT body FROM effects
WHERE tenant = :tenant AND state >= :state AND state <= :state
  AND (overdue_at IS NULL OR overdue_at > :now) AND uid < :before
ORDER BY state DESC, uid DESC LIMIT :limit;

-- name: list_ambiguous_effects
-- A tenant's effects whose outcome is unknown, noted or overdue by now, the newest first.
WITH late AS MATERIALIZED (SELECT tenant, uid, id FROM effects WHERE overdue_at <= :now)
SELECT body FROM (
  SELECT uid, body FROM (
    SELECT uid, body FROM effects
    WHERE tenant = :tenant AND state >= 'AMBIGUOUS' AND state <= 'AMBIGUOUS' AND uid < :before
    ORDER BY state DESC, uid DESC LIMIT :limit
  ) AS noted
  UNION ALL
  SELECT uid, (SELECT e.body FROM effects e WHERE e.tenant = :tenant AND e.id = overdue.id) FROM (
    SELECT uid, id FROM late WHERE tenant = :tenant AND uid < :before ORDER BY uid DESC LIMIT :limit
  ) AS overdue
) AS both_kinds ORDER BY uid DESC LIMIT :limit;

-- name: count_ambiguous_effects
-- How many effects of a tenant have an unknown outcome, noted or overdue by now, counted up to a bound.
SELECT count(*) FROM (
  SELECT 1 FROM (
    SELECT 1 FROM effects WHERE tenant = :tenant AND state >= 'AMBIGUOUS' AND state <= 'AMBIGUOUS' LIMIT :limit
  ) AS noted
  UNION ALL
  SELECT 1 FROM (SELECT 1 FROM effects WHERE overdue_at <= :now AND tenant = :tenant LIMIT :limit) AS overdue
) AS unknown;

-- name: count_ambiguous_by_tenant
-- How many effects of each tenant are ambiguous and unresolved, counted up to a bound in all.
SELECT tenant, count(*) FROM (
  SELECT tenant FROM effects WHERE state = 'AMBIGUOUS' ORDER BY tenant, uid LIMIT :limit
) AS ambiguous GROUP BY tenant LIMIT :limit;
