-- Uses of a grant are listed by their number and signers by when they came, the newest first; by their ids, which are
-- digests, they came in no order at all.
ALTER TABLE grant_uses ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
-- A body that somebody broke has none, and must not stop the upgrade.
UPDATE grant_uses SET number = coalesce(CAST(json_extract(body, '$.use') AS INTEGER), 0) WHERE json_valid(body);
DROP INDEX grant_uses_by_grant;
CREATE INDEX grant_uses_by_grant ON grant_uses (tenant, grant_id, number);
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('grant_uses', 'grant_uses_by_grant', '1000000 1000000 10 1');
ANALYZE sqlite_schema;

ALTER TABLE signers ADD COLUMN added_at INTEGER NOT NULL DEFAULT 0;
-- julianday knows milliseconds only, so the seconds and what is behind their point are read apart.
UPDATE signers SET
  added_at = coalesce((
    SELECT CAST(strftime('%s', added) AS INTEGER) * 1000000
      + CASE WHEN instr(added, '.') THEN CAST(substr(added, instr(added, '.') + 1, 6) AS INTEGER) ELSE 0 END
    FROM (SELECT json_extract(body, '$.added_at') AS added)
  ), 0)
WHERE json_valid(body);
CREATE INDEX signers_by_time ON signers (tenant, added_at, id);
