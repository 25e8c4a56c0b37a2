-- name: list_entries
-- Audit entries of a tenant, newest first.
SELECT seq, body FROM audit_entries
WHERE tenant = :tenant AND seq < :before
ORDER BY seq DESC LIMIT :limit;

-- name: list_entries_of_subject
-- Audit entries about one thing, newest first, narrowed by actor and action; in an order that only its index has.
SELECT seq, body FROM audit_entries
WHERE tenant = :tenant AND subject >= :subject AND subject <= :subject AND seq < :before
  AND (CAST(:actor AS text) IS NULL OR actor = :actor)
  AND (CAST(:action AS text) IS NULL OR action = :action)
ORDER BY subject DESC, seq DESC LIMIT :limit;

-- name: list_entries_between
-- Audit entries of a stretch of the log, newest first, narrowed by actor and action.
SELECT seq, body FROM audit_entries
WHERE tenant = :tenant AND seq < :before AND seq >= :since
  AND (CAST(:actor AS text) IS NULL OR actor = :actor)
  AND (CAST(:action AS text) IS NULL OR action = :action)
ORDER BY seq DESC LIMIT :limit;

-- name: stretch_of_entries
-- How far a tenant's newest :limit entries reach: the oldest one's number, and how many there are.
SELECT min(seq), count(*) FROM (
  SELECT seq FROM audit_entries WHERE tenant = :tenant AND seq < :before ORDER BY seq DESC LIMIT :limit
) AS stretch;
