-- Uses of a grant are listed by their number and signers by when they came, the newest first; by their ids, which are
-- digests, they came in no order at all.
ALTER TABLE grant_uses ADD COLUMN number BIGINT NOT NULL DEFAULT 0;
-- A body that somebody broke has none, and must not stop the upgrade: so they are looked for, and not read.
UPDATE grant_uses SET number = coalesce(substring(body FROM '"use":([0-9]{1,9})[,}]')::bigint, 0);
DROP INDEX grant_uses_by_grant;
CREATE INDEX grant_uses_by_grant ON grant_uses (tenant, grant_id, number) WHERE grant_id IS NOT NULL;

ALTER TABLE signers ADD COLUMN added_at BIGINT NOT NULL DEFAULT 0;
UPDATE signers SET added_at = coalesce((EXTRACT(EPOCH FROM substring(
  body FROM '"added_at":"([0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]+)?Z)"'
)::timestamptz) * 1000000)::bigint, 0);
CREATE INDEX signers_by_time ON signers (tenant, added_at, id) WHERE added_at IS NOT NULL;
