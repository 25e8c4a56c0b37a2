-- name: expired_runs
-- Runs of a tenant whose slot has run out, the longest gone first.
SELECT body FROM runs WHERE tenant = :tenant AND slot_expires_at <= :now ORDER BY slot_expires_at, id
LIMIT :limit;

-- name: tenants_with_expired_runs
-- Tenants in which some slot has run out.
SELECT DISTINCT tenant FROM runs WHERE slot_expires_at <= :now LIMIT :limit;

-- name: list_runs
-- A tenant's runs, newest first.
SELECT body FROM runs WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: list_runs_by_state
-- A tenant's runs in one state by now, newest first: one whose slot has run out is no longer running.
SELECT body FROM runs
WHERE tenant = :tenant AND state = :state AND (slot_expires_at IS NULL OR slot_expires_at > :now)
  AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_runs_by_workflow
-- A tenant's runs of one workflow, newest first.
SELECT body FROM runs WHERE tenant = :tenant AND workflow = :workflow AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_runs_by_state_and_workflow
-- A tenant's runs of one workflow in one state by now, newest first.
SELECT body FROM runs
WHERE tenant = :tenant AND state = :state AND (slot_expires_at IS NULL OR slot_expires_at > :now)
  AND workflow = :workflow AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: list_lost_runs
-- A tenant's runs that are lost, noted or by now, newest first.
WITH late AS MATERIALIZED (SELECT id FROM runs WHERE tenant = :tenant AND slot_expires_at <= :now)
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM runs WHERE tenant = :tenant AND state = 'lost' AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS noted
  UNION ALL
  SELECT id, (SELECT r.body FROM runs r WHERE r.tenant = :tenant AND r.id = overdue.id) FROM (
    SELECT id FROM late WHERE id < :before ORDER BY id DESC LIMIT :limit
  ) AS overdue
) AS both_kinds ORDER BY id DESC LIMIT :limit;

-- name: list_lost_runs_by_workflow
-- A tenant's runs of one workflow that are lost, noted or by now, newest first.
WITH late AS MATERIALIZED (SELECT workflow, id FROM runs WHERE tenant = :tenant AND slot_expires_at <= :now)
SELECT body FROM (
  SELECT id, body FROM (
    SELECT id, body FROM runs
    WHERE tenant = :tenant AND state = 'lost' AND workflow = :workflow AND id < :before
    ORDER BY id DESC LIMIT :limit
  ) AS noted
  UNION ALL
  SELECT id, (SELECT r.body FROM runs r WHERE r.tenant = :tenant AND r.id = overdue.id) FROM (
    SELECT id FROM late WHERE workflow = :workflow AND id < :before ORDER BY id DESC LIMIT :limit
  ) AS overdue
) AS both_kinds ORDER BY id DESC LIMIT :limit;

-- name: list_limits
-- A tenant's limits by scope, each with its gate.
SELECT limits.body, gates.body FROM limits LEFT JOIN gates ON gates.tenant = limits.tenant
AND gates.id = CASE WHEN limits.id = 'tenant' THEN 'tenant' ELSE 'workflow:' || limits.id END
WHERE limits.tenant = :tenant AND limits.id > :after ORDER BY limits.id LIMIT :limit;

-- name: tenant_gate
-- A tenant's gate, and how many runs there are that it should count.
SELECT gates.body, (SELECT count(*) FROM runs WHERE runs.tenant = :tenant AND runs.state = 'running')
FROM gates WHERE gates.tenant = :tenant AND gates.id = 'tenant' LIMIT 1;

-- name: pending_tallies_of_tenant
-- What the servers of a tenant have counted since a moment and is in no sheet yet, the newest first.
SELECT body FROM admission_tallies
WHERE tenant = :tenant AND rolled_at IS NULL AND at >= :since AND at IS NOT NULL
ORDER BY at DESC LIMIT :limit;

-- name: pending_tallies
-- Tallies from before a moment that are in no sheet yet, in every tenant, the oldest first.
SELECT body FROM admission_tallies WHERE rolled_at IS NULL AND at < :before ORDER BY at, tenant, id LIMIT :limit;

-- name: old_tallies
-- Tallies that were rolled up before a moment, in every tenant, the oldest first.
SELECT body FROM admission_tallies WHERE rolled_at IS NOT NULL AND rolled_at < :before
ORDER BY rolled_at, tenant, id LIMIT :limit;

-- name: traffic_sheets_from
-- A shelf's sheets since a moment, by name and then by time, of the names after one.
SELECT body FROM traffic_sheets
WHERE tenant = :tenant AND shelf = :shelf AND name > :after AND at >= :since AND name IS NOT NULL
ORDER BY name, at LIMIT :limit;

-- name: traffic_sheets_of
-- The sheets of one name on a shelf since a moment.
SELECT body FROM traffic_sheets
WHERE tenant = :tenant AND shelf = :shelf AND name = :name AND at >= :since AND name IS NOT NULL
ORDER BY at LIMIT :limit;

-- name: old_traffic_sheets
-- Sheets that no window reaches back to, in every tenant, the oldest first.
SELECT body FROM traffic_sheets WHERE forget_at <= :now ORDER BY forget_at, tenant, id LIMIT :limit;
