-- name: tenant_webhooks
-- A tenant's webhooks, oldest first.
SELECT body FROM webhooks WHERE tenant = :tenant ORDER BY id LIMIT :limit;

-- name: list_webhooks
-- A tenant's webhooks, newest first.
SELECT body FROM webhooks WHERE tenant = :tenant AND id < :before ORDER BY id DESC LIMIT :limit;

-- name: free_relays
-- Relays that nobody delivers for, the longest free first, in every tenant.
SELECT body FROM relays WHERE free_at <= :now ORDER BY free_at, tenant, id LIMIT :limit;

-- name: every_relay
-- Relays of every tenant, the one that is furthest behind first.
SELECT body FROM relays ORDER BY position, tenant, id LIMIT :limit;

-- name: furthest_behind
-- The lowest position that a relay still stands at.
SELECT min(position) FROM relays;

-- name: list_deliveries
-- A webhook's deliveries in one state, in the order of their events.
SELECT body FROM deliveries WHERE tenant = :tenant AND webhook = :webhook AND state = :state AND position > :after
ORDER BY position LIMIT :limit;

-- name: count_deliveries
-- How many deliveries of a webhook are in one state, counted up to a bound.
SELECT count(*) FROM (
  SELECT 1 FROM deliveries WHERE tenant = :tenant AND webhook = :webhook AND state = :state LIMIT :limit
) AS counted;

-- name: old_deliveries
-- Deliveries from before a time, whatever became of them, the oldest first, in every tenant.
SELECT tenant, id FROM deliveries WHERE at < :before ORDER BY at LIMIT :limit;
