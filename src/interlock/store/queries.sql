-- name: prune_batches
-- Of the oldest batches those from before a moment, but never the newest, which keeps the clock.
DELETE FROM batches WHERE at < :before
  AND seq IN (SELECT seq FROM batches ORDER BY seq LIMIT :limit)
  AND seq < (SELECT max(seq) FROM batches);

-- name: prune_answers
-- Kept answers whose time is over, the longest expired first.
DELETE FROM answers WHERE expires_at <= :now AND (tenant, id) IN (
  SELECT tenant, id FROM answers WHERE expires_at <= :now ORDER BY expires_at LIMIT :limit
);
