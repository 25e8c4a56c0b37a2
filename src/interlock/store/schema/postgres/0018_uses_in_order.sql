-- Uses of a grant are listed by their number and signers by when they came, the newest first; by their ids, which are
-- digests, they came in no order at all.
ALTER TABLE grant_uses ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
UPDATE grant_uses SET number = (body::json ->> 'use')::bigint;
DROP INDEX grant_uses_by_grant;
CREATE INDEX grant_uses_by_grant ON grant_uses (tenant, grant_id, number) WHERE grant_id IS NOT NULL;

ALTER TABLE signers ADD COLUMN added_at BIGINT NOT NULL DEFAULT 0;
UPDATE signers SET added_at = (EXTRACT(EPOCH FROM (body::json ->> 'added_at')::timestamptz) * 1000000)::bigint;
CREATE INDEX signers_by_time ON signers (tenant, added_at, id) WHERE added_at IS NOT NULL;
