-- name: list_snapshots
-- Policies that were ever in force, newest first.
SELECT seq, body FROM policy_snapshots WHERE tenant = :tenant AND seq < :before
ORDER BY seq DESC LIMIT :limit;

-- name: full_buckets
-- Buckets of throttles that should be full by now, the longest full first, in every tenant.
SELECT body FROM policy_buckets WHERE full_at <= :now ORDER BY full_at, tenant, id LIMIT :limit;
