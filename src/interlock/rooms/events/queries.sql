-- name: sequence_events
-- Give committed events their positions where the store does not give them at once; -1 if another is at it.
SELECT sequenced FROM event_sequencing LIMIT 1;

-- name: head
-- The newest position.
SELECT max(position) FROM event_head;

-- name: oldest
-- The oldest position that is still kept, in every tenant.
SELECT min(position) FROM events;

-- name: events_after
-- A tenant's events after a position, oldest first.
SELECT position, body FROM events WHERE tenant = :tenant AND position > :after ORDER BY position LIMIT :limit;

-- name: newest_events
-- A tenant's newest events, newest first.
SELECT position, body FROM events WHERE tenant = :tenant AND position > 0 ORDER BY position DESC LIMIT :limit;

-- name: every_event_after
-- Events of all tenants after a position, oldest first.
SELECT position, body FROM events WHERE position > :after ORDER BY position LIMIT :limit;

-- name: news_after
-- Whose the next events after a position are, and for each tenant how many and up to which position.
SELECT tenant, count(*), max(position) FROM (
  SELECT position, tenant FROM events WHERE position > :after ORDER BY position LIMIT :limit
) AS news GROUP BY tenant LIMIT :limit;

-- name: forgettable_events
-- Of the oldest events up to a position, those from before a time.
SELECT tenant, id FROM (
  SELECT tenant, id, at, position FROM events WHERE position <= :up_to ORDER BY position LIMIT :limit
) AS oldest WHERE at < :before ORDER BY position LIMIT :limit;

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
