-- name: list_snapshots
-- Policies that were ever in force, newest first.
SELECT seq, body FROM policy_snapshots WHERE tenant = :tenant AND seq < :before
ORDER BY seq DESC LIMIT :limit;
