ALTER TABLE jobs ADD COLUMN rank INTEGER NOT NULL DEFAULT 2;
ALTER TABLE jobs ADD COLUMN runnable_at INTEGER;
ALTER TABLE jobs ADD COLUMN lease_until INTEGER;
ALTER TABLE jobs ADD COLUMN offer_again_at INTEGER;

UPDATE jobs SET
  rank = CASE json_extract(body, '$.priority') WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'low' THEN 3 ELSE 2 END;
-- julianday knows milliseconds only, so the seconds and what is behind their point are read apart.
UPDATE jobs SET
  runnable_at = (
    SELECT CAST(strftime('%s', released) AS INTEGER) * 1000000
      + CASE WHEN instr(released, '.') THEN CAST(substr(released, instr(released, '.') + 1, 6) AS INTEGER) ELSE 0 END
    FROM (SELECT coalesce(json_extract(body, '$.approval.decided_at'), json_extract(body, '$.submitted_at')) AS released)
  )
WHERE state = 'PENDING';
UPDATE jobs SET offer_again_at = runnable_at + 60000000 WHERE state = 'PENDING';

-- Finished jobs are in none of these, so that claims and sweeps cost the same however many there are.
CREATE INDEX jobs_runnable ON jobs (tenant, topic, rank, runnable_at, id) WHERE runnable_at IS NOT NULL;
CREATE INDEX jobs_by_lease ON jobs (lease_until, tenant, id) WHERE lease_until IS NOT NULL;
CREATE INDEX jobs_by_offer ON jobs (offer_again_at, tenant, id) WHERE offer_again_at IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (tenant, id) WHERE state = 'FAILED';

CREATE TABLE permit_keys (
  tenant TEXT NOT NULL, id TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) WITHOUT ROWID;
